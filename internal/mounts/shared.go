package mounts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"slipway/internal/errs"
)

// CheckShared says how to make a directory one from which mounts propagate, if it is none. Whoever binds it would not see what is mounted
// in it later: for autofs's directories the kernel says "Too many levels of symbolic links" then.
func CheckShared(dir string) error {
	info, err := readMountinfo()
	if err != nil {
		return fmt.Errorf("read how %s is mounted: %w", dir, err)
	}
	real, err := locate(info, dir)
	if err != nil {
		return errs.New(errs.Missing, "mount %s: %w", dir, err).With("create or mount it on this host")
	}
	if shared, point := propagates(info, real); !shared {
		return errs.New(errs.Missing, "mount %s: it lies on %s, which is no shared mount: workloads would not see what is mounted later", dir, point).
			With(remedy(real, point))
	}
	return nil
}

func readMountinfo() (string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	return string(info), err
}

// locate returns the path of a directory without links. What is mounted on the way is taken to be a directory and not touched: its file system
// may never answer.
func locate(mountinfo, dir string) (string, error) {
	points := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		if m, ok := parseMount(line); ok {
			points[m.point] = true
		}
	}
	real, rest := "/", strings.Split(filepath.Clean(dir), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(real, rest[0])
		rest = rest[1:]
		if points[next] {
			real = next
			continue
		}
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > mostLinks {
			return "", fmt.Errorf("%s: too many links", dir)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			real = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return real, nil
}

// mostLinks is as many as the kernel follows.
const mostLinks = 40

// remedy makes a directory's mount shared. Where none is mounted on it, it needs one first.
func remedy(dir, point string) string {
	if dir == point {
		return "`mount --make-rshared " + dir + "`"
	}
	return fmt.Sprintf("`mount --bind %[1]s %[1]s && mount --make-rshared %[1]s`", dir)
}

// mount is a line of a mountinfo file.
type mount struct {
	device string // major:minor
	point  string
	kind   string // of file system
	shared bool   // tells others of new mounts below it, or is told
}

// parseMount reads a line. Kernels may add fields before the dash.
func parseMount(line string) (mount, bool) {
	fields := strings.Fields(line)
	if len(fields) < 7 {
		return mount{}, false
	}
	m := mount{device: fields[2], point: Unescape(fields[4])}
	for i, tag := range fields[6:] {
		if tag == "-" {
			if rest := fields[6+i+1:]; len(rest) > 0 {
				m.kind = rest[0]
			}
			break
		}
		m.shared = m.shared || strings.HasPrefix(tag, "shared:") || strings.HasPrefix(tag, "master:")
	}
	return m, true
}

// holder finds the mount that holds a path: of several at one place the last is on top.
func holder(mountinfo, dir string) (found mount) {
	for line := range strings.Lines(mountinfo) {
		m, ok := parseMount(line)
		if ok && within(dir, m.point) && len(m.point) >= len(found.point) {
			found = m
		}
	}
	return found
}

// propagates reads a mountinfo file: whether the mount that holds dir tells others of new mounts below it, and where it is.
func propagates(mountinfo, dir string) (shared bool, point string) {
	m := holder(mountinfo, dir)
	return m.shared, m.point
}

func within(dir, root string) bool {
	return dir == root || root == "/" || strings.HasPrefix(dir, root+"/")
}

// Unescape reads the kernel's way of writing blanks and backslashes in its lists of mounts: \040.
func Unescape(s string) string {
	var out bytes.Buffer
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
