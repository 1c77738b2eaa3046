package graft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// fixture is an overlay as an engine would keep it for a session, and the squashfs of what lies below.
type fixture struct {
	t                  testing.TB
	dir, lower, merged string
	upper              string
	file               *os.File // of base
	base               *squashfs.Image
	strip              *tree.Strip
}

// newFixture makes a base by calling fill with its directory, which has the skeleton already, and mounts the overlay.
func newFixture(t testing.TB, fill ...func(root string) error) *fixture {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Mksquashfs, testenv.Loop)
	return fixtureIn(t, t.TempDir(), fill...)
}

func fixtureIn(t testing.TB, dir string, fill ...func(root string) error) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: dir, strip: noRules(t, "/usr/*/stripped")}
	f.lower, f.merged, f.upper = f.at("lower"), f.at("merged"), f.at("upper")
	for _, d := range []string{f.lower, f.merged, f.upper, f.at("work")} {
		must(t, os.Mkdir(d, 0o755))
	}
	must(t, fillSkeleton(f.lower))
	for _, fn := range fill {
		must(t, fn(f.lower))
	}
	f.pack()
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off,metacopy=off,index=off", f.lower, f.upper, f.at("work"))
	must(t, unix.Mount("test", f.merged, "overlay", unix.MS_NODEV, options))
	t.Cleanup(func() { must(t, unix.Unmount(f.merged, 0)) })
	return f
}

func (f *fixture) at(p string) string { return filepath.Join(f.dir, p) }

func (f *fixture) pack() {
	f.t.Helper()
	out, err := exec.Command("mksquashfs", f.lower, f.at("base"), "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level", "1").CombinedOutput()
	if err != nil {
		f.t.Fatalf("mksquashfs: %v: %s", err, out)
	}
	f.file, err = os.Open(f.at("base"))
	must(f.t, err)
	f.t.Cleanup(func() { f.file.Close() })
	st, err := f.file.Stat()
	must(f.t, err)
	f.base, err = squashfs.Parse(f.file, st.Size())
	must(f.t, err)
}

func fillSkeleton(root string) error {
	for _, e := range skeleton() {
		path := filepath.Join(root, e.path)
		var err error
		switch e.node.Kind {
		case squashfs.Dir:
			err = errors.Join(os.Mkdir(path, 0o755), unix.Chmod(path, uint32(e.node.Mode)))
		case squashfs.Symlink:
			err = os.Symlink(e.node.Target, path)
		default:
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return write(filepath.Join(root, runtimeDir, "runscript"), "#!/bin/sh\n")
}

// write makes a file with all directories above it.
func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// change runs fn on the merged tree, so that the kernel makes the upper directory what it must be.
func (f *fixture) change(fn func(root string) error) {
	f.t.Helper()
	must(f.t, fn(f.merged))
}

func (f *fixture) config(out io.Writer) Config {
	return Config{Base: f.base, Upper: f.upper, Strip: f.strip, Out: out}
}

// graft grafts with a pause that does nothing, and gives the whole image.
func (f *fixture) graft(change func(*Config)) (Result, []byte) {
	f.t.Helper()
	var tail bytes.Buffer
	cfg := f.config(&tail)
	cfg.Pause = func(context.Context) error { return nil }
	if change != nil {
		change(&cfg)
	}
	r, err := Graft(f.t.Context(), cfg)
	must(f.t, err)
	if r.TailSize != int64(tail.Len()) || (f.base.Cut()+r.TailSize)%4096 != 0 {
		f.t.Errorf("the tail has %d bytes, not %d, behind %d", tail.Len(), r.TailSize, f.base.Cut())
	}
	return r, tail.Bytes()
}

// mount lets the kernel mount base and tail.
func (f *fixture) mount(r Result, tail []byte) string {
	f.t.Helper()
	image := make([]byte, f.base.Cut())
	_, err := f.file.ReadAt(image, 0)
	must(f.t, err)
	super := r.Super.Bytes()
	copy(image, super[:])
	path, point := filepath.Join(f.t.TempDir(), "image"), f.t.TempDir()
	must(f.t, os.WriteFile(path, append(image, tail...), 0o644))
	out, err := exec.Command("mount", "-t", "squashfs", "-o", "loop,ro", path, point).CombinedOutput()
	if err != nil {
		f.t.Fatalf("mount %s: %v: %s", path, err, out)
	}
	f.t.Cleanup(func() { must(f.t, unix.Unmount(point, 0)) })
	return point
}

// list describes the merged tree as the image must have it.
func (f *fixture) list() []string {
	f.t.Helper()
	return treetest.List(f.t, f.merged, f.leftOut()...)
}

// leftOut lists what no image holds: what is stripped, sockets, and the session's devices.
func (f *fixture) leftOut() []string {
	f.t.Helper()
	var out []string
	must(f.t, filepath.WalkDir(f.merged, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(path, f.merged), "/")
		if err == nil && rel != "" && (d.Type() == fs.ModeSocket || d.Type()&fs.ModeDevice != 0 && exists(filepath.Join(f.upper, rel)) || stripped(f.strip, rel)) {
			out = append(out, rel)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return err
	}))
	return out
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func stripped(s *tree.Strip, path string) bool {
	rules := s.Top()
	for name := range strings.SplitSeq(path, "/") {
		hit, below := rules.Enter(name)
		if hit {
			return true
		}
		rules = below
	}
	return false
}

// equal fails the test for each path that differs between the image and want.
func (f *fixture) equal(want []string, r Result, tail []byte) {
	f.t.Helper()
	emptied := []string{"/home", "/run", "/tmp", "/var/tmp"}
	got := treetest.Timeless(treetest.List(f.t, f.mount(r, tail)), emptied...)
	for i, d := range treetest.Diff(treetest.Timeless(want, emptied...), got) {
		f.t.Error(d)
		if i == 20 {
			f.t.Fatal("and so on")
		}
	}
}
