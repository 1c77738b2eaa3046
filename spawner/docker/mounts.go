package docker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"

	"slipway/internal/errs"
)

// valid refuses a mount that cannot work on any host.
func (m Mount) valid() error {
	switch {
	case !filepath.IsAbs(m.Source):
		return errs.Bad("mounts.source", m.Source, "an absolute path")
	case !filepath.IsAbs(m.Target):
		return errs.Bad("mounts.target", m.Target, "an absolute path")
	case m.Propagation != "" && !slices.Contains(mount.Propagations, mount.Propagation(m.Propagation)):
		return errs.Bad("mounts.propagation", m.Propagation, "rprivate, or rslave to see what is mounted later")
	case strings.HasSuffix(m.Propagation, "shared"):
		return errs.Bad("mounts.propagation", m.Propagation, "rslave: with shared, mounts of a workload would reach the host")
	}
	return nil
}

// checkSources sees to it that the mounts' sources are there, and are shared mounts where later mounts are to be seen.
func checkSources(mounts []Mount) error {
	var problems []error
	for _, m := range mounts {
		if _, err := os.Stat(m.Source); err != nil {
			problems = append(problems, errs.New(errs.Missing, "mount %s: %w", m.Source, err).With("create or mount it on this host"))
		} else if strings.HasSuffix(m.Propagation, "slave") {
			problems = append(problems, checkShared(m.Source))
		}
	}
	return errors.Join(problems...)
}

// checkShared says how to make a directory shared that is not. The engine's own words for it do not.
func checkShared(dir string) error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read how %s is mounted: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("read how %s is mounted: %w", dir, err)
	}
	if shared, point := propagates(string(info), real); !shared {
		return errs.New(errs.Missing, "mount %s: it lies on %s, which is no shared mount: workloads would not see what is mounted later", dir, point).
			With(fmt.Sprintf("`mount --bind %[1]s %[1]s && mount --make-rshared %[1]s`", dir))
	}
	return nil
}

// propagates reads a mountinfo file: whether the mount that holds dir tells others of new mounts below it, and where it is.
func propagates(mountinfo, dir string) (shared bool, point string) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 7 {
			continue
		}
		at := unescape(fields[4])
		if !within(dir, at) || len(at) < len(point) {
			continue
		}
		point, shared = at, false // a later line of the same place lies on top
		for _, tag := range fields[6:] {
			if tag == "-" {
				break
			}
			shared = shared || strings.HasPrefix(tag, "shared:") || strings.HasPrefix(tag, "master:")
		}
	}
	return shared, point
}

func within(dir, root string) bool {
	return dir == root || root == "/" || strings.HasPrefix(dir, root+"/")
}

// unescape reads the kernel's way of writing blanks and backslashes: \040.
func unescape(s string) string {
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
