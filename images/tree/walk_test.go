package tree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func must(t testing.TB, list ...error) {
	t.Helper()
	for _, err := range list {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingButTheChildIsOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	must(t, os.MkdirAll(at("d/sub"), 0o755), os.WriteFile(at("d/f"), nil, 0o644), os.Symlink("sub", at("d/link")), unix.Mkfifo(at("d/fifo"), 0o644))
	root, err := OpenDir(at("d"))
	must(t, err)
	defer root.Close()
	st, err := StatFile(root)
	must(t, err)
	for name, want := range map[string]error{"sub": nil, ".": nil, "link": unix.ENOTDIR, "f": unix.ENOTDIR, "fifo": unix.ENOTDIR, "..": unix.EXDEV, "../d": unix.EXDEV, "gone": unix.ENOENT} {
		f, err := Open(root, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("open %q: %v, want %v", name, err, want)
		}
		if err == nil {
			must(t, f.Close())
		}
	}
	link, err := Open(root, "link", unix.O_PATH|unix.O_NOFOLLOW)
	must(t, err)
	defer link.Close()
	if got, err := StatFile(link); err != nil || got.Mode&unix.S_IFMT != unix.S_IFLNK {
		t.Errorf("a link opened by O_PATH is %o, %v", got.Mode, err)
	}
	if _, err := Child(root, "sub", st.Dev+1); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "another file system") {
		t.Errorf("a directory of another device: %v", err)
	}
}

func TestMountsAreNotEntered(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "d/mount"), 0o755))
	must(t, unix.Mount(dir, filepath.Join(dir, "d/mount"), "", unix.MS_BIND, ""))
	defer func() { must(t, unix.Unmount(filepath.Join(dir, "d/mount"), 0)) }()
	root, err := OpenDir(filepath.Join(dir, "d"))
	must(t, err)
	defer root.Close()
	st, err := StatFile(root)
	must(t, err)
	if f, err := Child(root, "mount", st.Dev); !errs.Is(err, errs.Conflict) {
		t.Errorf("a bind mount of the same device: %v, %v", f, err)
	}
}

func TestLongXattrsAreReadWhole(t *testing.T) {
	testenv.Need(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o644))
	var want []string
	for i := range 40 { // more names than the first buffer holds
		name := "user." + strings.Repeat("n", 20) + string(rune('A'+i))
		want = append(want, name)
		must(t, unix.Setxattr(path, name, []byte(strings.Repeat("v", 20+i)), 0))
	}
	got, err := ReadXattrs(path)
	must(t, err)
	for i, x := range got {
		if x.Name != want[i] || len(x.Value) != 20+i {
			t.Errorf("xattr %d is %q with %d bytes", i, x.Name, len(x.Value))
		}
	}
	list, err := XattrNames(path)
	if err != nil || !slices.Equal(list, want) || len(got) != len(want) {
		t.Errorf("%d values of names %q, %v", len(got), list, err)
	}
}

func TestApplyKeepsWhatTheKernelWouldDrop(t *testing.T) {
	testenv.Need(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o644))
	a := Attr{Xattrs: []Xattr{{"user.x", []byte("v")}}}
	a.Stat.Mode, a.Stat.Uid, a.Stat.Gid = unix.S_IFREG|0o4751, 12, 34
	a.Stat.Mtim, a.Stat.Atim = unix.Timespec{Sec: 1e9, Nsec: 5}, unix.Timespec{Sec: 2e9}
	must(t, a.Apply(path))
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	if st.Mode != a.Stat.Mode || st.Uid != 12 || st.Gid != 34 || st.Mtim != a.Stat.Mtim {
		t.Errorf("mode %o, owner %d:%d, mtime %v", st.Mode, st.Uid, st.Gid, st.Mtim)
	}
	if xs, err := ReadXattrs(path); err != nil || len(xs) != 1 || string(xs[0].Value) != "v" {
		t.Errorf("xattrs %v, %v", xs, err)
	}
}
