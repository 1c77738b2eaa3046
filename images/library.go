package images

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// Config says where a library is and how it packs.
type Config struct {
	Dir        string       // made when missing; on a file system that holds trusted xattrs and devices (not NFS)
	Logger     *slog.Logger // required
	Mksquashfs string       // program; "mksquashfs" from PATH when empty
	Strip      []string     // the site's rules, beside tree.DefaultStrip
}

// Library is a directory of environments:
//
//	blobs/<hex>.sif             the environments, each once
//	records/<owner>/<hex>.json  whose they are and what they are called
//	sources/<owner>/<key>.json  what the last freeze of a source found
//	work/freeze-*               freezes in progress
//	lock                        held by the one process that has the library open
//
// Who may read: the whole tree is root's. blobs and the library itself can be entered but not listed (0711) and the files
// are world-readable, so a batch job of any user can open an environment whose digest it was given, and no user can find
// out which there are: a digest has 256 bits and nothing but the owner's records leads to it. All else is 0700.
type Library struct {
	dir     string
	log     *slog.Logger
	strip   *tree.Strip
	packer  packer
	lock    *os.File
	flights flights
	records sync.Mutex // over read-change-write of a record
}

// Open opens the library, alone, and clears away what a killed service left in it. Close it after the last call.
func Open(cfg Config) (*Library, error) {
	strip, err := tree.NewStrip(cfg.Strip)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, errs.Bad("dir", cfg.Dir, "name the directory that is to hold the environments")
	}
	if cfg.Mksquashfs == "" {
		cfg.Mksquashfs = "mksquashfs"
	}
	l := &Library{dir: dir, log: cfg.Logger, strip: strip, packer: packer{cfg.Mksquashfs}}
	l.flights.run = map[string]*flight{}
	if err := l.prepare(); err != nil {
		return nil, fmt.Errorf("open library %s: %w", dir, err)
	}
	return l, nil
}

func (l *Library) prepare() error {
	modes := map[string]os.FileMode{"": 0o711, "blobs": 0o711, "records": 0o700, "sources": 0o700, "work": 0o700}
	for _, name := range []string{"", "blobs", "records", "sources", "work"} {
		if err := os.MkdirAll(l.path(name), 0o700); err != nil {
			return err
		}
		if err := os.Chmod(l.path(name), modes[name]); err != nil {
			return err
		}
	}
	if err := l.acquire(); err != nil {
		return err
	}
	if err := l.reap(); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// acquire takes the lock: reaping must never take the work of another process for left-overs.
func (l *Library) acquire() error {
	f, err := os.OpenFile(l.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(errs.New(errs.Conflict, "another process has it open: %w", err).With("stop the other service first"), f.Close())
	}
	l.lock = f
	return nil
}

// Close lets another process open the library. No freeze may be in progress.
func (l *Library) Close() error { return l.lock.Close() }

// reap removes unfinished freezes with their mounts, and temporary files.
func (l *Library) reap() error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	points, err := mountsBelow(mounts, l.path("work"))
	if err := errors.Join(err, mounts.Close()); err != nil {
		return err
	}
	for _, point := range points {
		l.log.Info("unmounting what an unfinished freeze left", "path", point)
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	left, err := filepath.Glob(l.path("work", "*"))
	if err != nil {
		return err
	}
	for _, kind := range []string{"records", "sources"} {
		files, err := filepath.Glob(l.path(kind, "*", temporary+"*"))
		if err != nil {
			return err
		}
		left = append(left, files...)
	}
	for _, path := range left {
		l.log.Info("removing what an unfinished freeze left", "path", path)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// mountsBelow reads mountinfo: the mount points below dir, the last mounted first.
func mountsBelow(mountinfo io.Reader, dir string) ([]string, error) {
	var out []string
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescapeMount(fields[4]); strings.HasPrefix(point, dir+"/") {
			out = append(out, point)
		}
	}
	slices.Reverse(out)
	return out, lines.Err()
}

// unescapeMount undoes the kernel's \ooo for spaces, tabs, newlines and backslashes.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (l *Library) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

// Path gives the file of an environment: a SIF, readable by every user who knows the path.
func (l *Library) Path(e Environment) string { return l.blob(e.Digest) }

// blob names the file of a digest. What is not a digest names a file that cannot exist.
func (l *Library) blob(digest string) string {
	hexPart, ok := digestHex(digest)
	if !ok {
		hexPart = "none"
	}
	return l.path("blobs", hexPart+".sif")
}

// Verify reads the whole environment again and compares it with its digest.
func (l *Library) Verify(ctx context.Context, digest string) error {
	f, err := os.Open(l.blob(digest))
	if errors.Is(err, os.ErrNotExist) {
		return errs.New(errs.NotFound, "verify %.80q: there is no such environment", digest)
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer f.Close()
	got, err := hashFile(ctx, f, func(int64) {})
	if err != nil {
		return fmt.Errorf("verify %s: %w", digest, err)
	}
	if got != digest {
		return errs.New(errs.Conflict, "the environment %s is damaged on disk: its content has the digest %s", digest, got).
			With("freeze it again or restore the file from a copy")
	}
	return nil
}
