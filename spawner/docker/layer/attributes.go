package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// attributes sets all that is not content. Owners come first: a new one takes away rights.
func (u *Unpacking) attributes(name string, h *tar.Header) error {
	at := u.at(name)
	if err := os.Lchown(at, h.Uid, h.Gid); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := unix.Chmod(at, uint32(h.Mode)&0o7777); err != nil {
			return err
		}
	}
	attributes := attributesOf(h)
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if err := unix.Lsetxattr(at, key, []byte(attributes[key]), 0); err != nil {
			return fmt.Errorf("set attribute %s: %w", key, err)
		}
	}
	return setTime(at, h.ModTime)
}

func setTime(at string, when time.Time) error {
	stamp, err := unix.TimeToTimespec(when.Truncate(time.Second))
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
}

// attributePrefix is that of a tar record which has an extended attribute.
const attributePrefix = "SCHILY.xattr."

// attributesOf reads those extended attributes of an entry that are a tree's own. The overlay's would make it another
// tree.
func attributesOf(h *tar.Header) map[string]string {
	all := map[string]string{}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, attributePrefix); ok && isOwn(name) {
			all[name] = value
		}
	}
	return all
}

func isOwn(attribute string) bool {
	return attribute == "security.capability" || strings.HasPrefix(attribute, "user.") && !strings.HasPrefix(attribute, "user.overlay.")
}

// HeaderOf reads the attributes of what lies at a path.
func HeaderOf(at string) (*tar.Header, error) {
	var s unix.Stat_t
	if err := unix.Lstat(at, &s); err != nil {
		return nil, err
	}
	h := &tar.Header{
		Mode: int64(s.Mode & 0o7777), Uid: int(s.Uid), Gid: int(s.Gid), ModTime: time.Unix(s.Mtim.Sec, 0),
		PAXRecords: map[string]string{},
	}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, s.Size
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
	case unix.S_IFLNK:
		to, err := os.Readlink(at)
		if err != nil {
			return nil, err
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, to, 0o777
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if s.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(s.Rdev)), int64(unix.Minor(s.Rdev))
	}
	return h, readAttributes(at, h)
}

// readAttributes adds the extended attributes that lie on a path.
func readAttributes(at string, h *tar.Header) error {
	names := make([]byte, 64<<10) // the kernel's own bound
	n, err := unix.Llistxattr(at, names)
	if err != nil || n == 0 {
		return ignoreUnsupported(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if !isOwn(name) {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(at, name, value)
		if err != nil {
			return err
		}
		h.PAXRecords[attributePrefix+name] = string(value[:n])
	}
	return nil
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
