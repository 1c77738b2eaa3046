package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// lines describes every entry below root: what must be equal in two equal trees. ACLs and fractions of seconds, which
// squashfs cannot hold, are left out.
func lines(t testing.TB, root string, skip func(path string) bool) map[string]string {
	t.Helper()
	out, groups := map[string]string{}, map[string]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if skip(rel) {
			return nil
		}
		line, err := describe(path, rel, groups)
		out[rel] = line
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func describe(path, rel string, groups map[string]string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	line := fmt.Sprintf("mode %o owner %d:%d mtime %d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec)
	if !tree.IsDir(&st) {
		inode := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
		if _, seen := groups[inode]; !seen {
			groups[inode] = rel
		}
		line += fmt.Sprintf(" size %d nlink %d same as %q", st.Size, st.Nlink, groups[inode])
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		line += fmt.Sprintf(" rdev %d", st.Rdev)
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		line += fmt.Sprintf(" -> %q", target)
	case unix.S_IFREG:
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		line += " content " + hex.EncodeToString(sum[:8])
	}
	return line + describeXattrs(path), nil
}

func describeXattrs(path string) string {
	list, err := tree.XattrNames(path)
	if err != nil {
		return ""
	}
	var out string
	for _, name := range list {
		if strings.HasPrefix(name, "system.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		out += fmt.Sprintf(" %s=%x,%v", name, value[:max(n, 0)], err)
	}
	return out
}

// differences gives a line for each path that is not the same in both trees.
func differences(want, got map[string]string) []string {
	var out []string
	for path, line := range want {
		if got[path] != line {
			out = append(out, fmt.Sprintf("%q\n\twant %s\n\tgot  %s", path, line, got[path]))
		}
	}
	for path, line := range got {
		if _, known := want[path]; !known {
			out = append(out, fmt.Sprintf("%q\n\tis extra: %s", path, line))
		}
	}
	return out
}
