package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
)

// CheckShared says how to make a directory one from which mounts propagate, if it is none. Whoever binds it would not
// see what is mounted in it later: for autofs's directories the kernel says "Too many levels of symbolic links" then.
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
		return errs.New(
			errs.Missing,
			"mount %s: it lies on %s, which is no shared mount: workloads would not see what is mounted later", dir,
			point,
		).With(remedy(real, point))
	}
	return nil
}

func readMountinfo() (string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	return string(info), err
}

// locate returns the path of a directory without links. What is mounted on the way is taken to be a directory and not
// touched: its file system may never answer.
func locate(mountinfo, dir string) (string, error) {
	points := map[string]bool{}
	for m := range Mounts(mountinfo) {
		points[m.Point] = true
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

// holder finds the mount that holds a path: of several at one place the last is on top.
func holder(mountinfo, dir string) (found Mount) {
	for m := range Mounts(mountinfo) {
		if within(dir, m.Point) && len(m.Point) >= len(found.Point) {
			found = m
		}
	}
	return found
}

// propagates reads a mountinfo file: whether the mount that holds dir tells others of new mounts below it, and where it
// is.
func propagates(mountinfo, dir string) (shared bool, point string) {
	m := holder(mountinfo, dir)
	return m.Group != "" || m.Master != "", m.Point
}

func within(dir, root string) bool {
	return dir == root || root == "/" || strings.HasPrefix(dir, root+"/")
}
