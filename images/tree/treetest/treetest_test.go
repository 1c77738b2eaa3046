package treetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

func fill(t *testing.T, dir string) {
	t.Helper()
	at := func(p string) string { return filepath.Join(dir, p) }
	for _, err := range []error{
		os.MkdirAll(at("d/sub"), 0o755), os.WriteFile(at("d/f"), []byte("one"), 0o644), os.Link(at("d/f"), at("d/g")),
		os.WriteFile(at("alone"), []byte("two"), 0o644), os.Symlink("f", at("d/link")), unix.Mknod(at("dev"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
		unix.Setxattr(at("alone"), "user.a", []byte("x"), 0), os.MkdirAll(at("left/out"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"alone", "d/f", "dev", "d/sub", "d", "left/out", "left", ""} {
		if err := os.Chtimes(at(p), time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, at("d/link"), []unix.Timespec{{Sec: 1e9}, {Sec: 1e9}}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
}

// TestEachDifferenceShows changes one thing at a time.
func TestEachDifferenceShows(t *testing.T) {
	testenv.Need(t, testenv.Root)
	keep := func(path string, err error) error {
		return firstOf(err, os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	for name, change := range map[string]func(at func(string) string) error{
		"mode":  func(at func(string) string) error { return os.Chmod(at("d/f"), 0o600) },
		"owner": func(at func(string) string) error { return os.Lchown(at("d/link"), 1, 1) },
		"time":  func(at func(string) string) error { return os.Chtimes(at("d/sub"), time.Unix(5, 0), time.Unix(5, 0)) },
		"root":  func(at func(string) string) error { return os.Chmod(at(""), 0o700) },
		"content": func(at func(string) string) error {
			return keep(at("d/f"), os.WriteFile(at("d/f"), []byte("two"), 0o644))
		},
		"xattr":  func(at func(string) string) error { return unix.Setxattr(at("alone"), "user.a", []byte("y"), 0) },
		"unlink": func(at func(string) string) error { return keep(at("d"), os.Remove(at("d/g"))) },
		"apart": func(at func(string) string) error {
			return keep(at("d"), keep(at("d/g"), firstOf(os.Remove(at("d/g")), os.WriteFile(at("d/g"), []byte("one"), 0o644))))
		},
		"device": func(at func(string) string) error {
			return keep(at(""), keep(at("dev"), firstOf(os.Remove(at("dev")), unix.Mknod(at("dev"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := t.TempDir(), t.TempDir()
			fill(t, a)
			fill(t, b)
			if d := Diff(List(t, a, "left/out"), List(t, b, "left/out")); len(d) > 0 {
				t.Fatalf("equal trees differ: %q", d)
			}
			if err := change(func(p string) string { return filepath.Join(b, p) }); err != nil {
				t.Fatal(err)
			}
			if d := Diff(List(t, a, "left"), List(t, b, "left")); len(d) == 0 {
				t.Error("the difference does not show")
			}
		})
	}
}

func firstOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestSkipTakesAllBelow(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	fill(t, dir)
	lines := strings.Join(List(t, dir, "left", "d/g"), "\n")
	if strings.Contains(lines, "left") || strings.Contains(lines, "names of") || !strings.Contains(lines, `"/d/f" mode 100644 owner 0:0 mtime 1000000000 size 3 sha256 `) {
		t.Error(lines)
	}
}
