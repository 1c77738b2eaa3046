package squash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// find looks the program up, so that its absence is told before any work is done.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", errs.New(errs.Missing, "%s is not installed: %w", program, err).With("apt-get install squashfs-tools")
	}
	return path, nil
}

// mksquashfs writes the tree below root as a squashfs at offset of the file out. zstd level 1 costs a twentieth of
// the default levels' time for a tenth more bytes.
func mksquashfs(ctx context.Context, name string, root *os.File, out string, offset int64, progress func(percent float64)) error {
	program, err := find(name)
	if err != nil {
		return err
	}
	// PR_SET_PDEATHSIG counts the thread, not the process, as the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, ".", out, "-offset", strconv.FormatInt(offset, 10),
		"-comp", "zstd", "-Xcompression-level", "1", "-noappend", "-no-recovery", "-xattrs", "-exit-on-error",
		"-mem", "1G", "-mkfs-time", strconv.FormatInt(generatedAt().Unix(), 10), "-progress")
	cmd.Dir = tree.FDPath(int(root.Fd()))
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaints tail
	cmd.Stdout, cmd.Stderr = &progressWriter{tell: progress}, &complaints
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if strings.Contains(strings.ToLower(string(complaints)), syscall.ENOSPC.Error()) {
			err = errors.Join(err, syscall.ENOSPC)
		}
		return fmt.Errorf("run mksquashfs: %w: %s", err, strings.TrimSpace(string(complaints)))
	}
	return checkSquashfs(out, offset)
}

// checkSquashfs makes sure that a squashfs with padding lies where it should.
func checkSquashfs(path string, offset int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, offset); err != nil || string(magic) != "hsqs" || (st.Size()-offset)%4096 != 0 {
		return errs.New(errs.Internal, "mksquashfs left no complete squashfs in %s", path)
	}
	return nil
}

// tail keeps the end of what a program says.
type tail []byte

// Write takes p as the newest part.
func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if over := len(*t) - 4096; over > 0 {
		*t = (*t)[over:]
	}
	return len(p), nil
}

// progressWriter reads mksquashfs's progress bar, which it draws anew on one line.
type progressWriter struct {
	line bytes.Buffer
	tell func(percent float64)
}

// Write takes the next part of the program's output.
func (w *progressWriter) Write(p []byte) (int, error) {
	for _, c := range p {
		if c != '\r' && c != '\n' {
			if w.line.Len() < 512 {
				w.line.WriteByte(c)
			}
			continue
		}
		if percent, ok := parseProgress(w.line.String()); ok {
			w.tell(percent)
		}
		w.line.Reset()
	}
	return len(p), nil
}

var progressBar = regexp.MustCompile(`^\[[^\]]*\]\s*(\d{1,15})/(\d{1,15})\s+\d+%`)

// parseProgress reads a line like "[=====|   ] 120/240  50%".
func parseProgress(line string) (percent float64, ok bool) {
	m := progressBar.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	done, err1 := strconv.ParseInt(m[1], 10, 64)
	total, err2 := strconv.ParseInt(m[2], 10, 64)
	if err1 != nil || err2 != nil || total == 0 || done > total {
		return 0, false
	}
	return 100 * float64(done) / float64(total), true
}
