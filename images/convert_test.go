package images

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// awkwardLayers are two layers as an engine unpacks them, with all that an image may hold.
func awkwardLayers(crowd int) (bottom, top func(root string) error) {
	mk := func(root, p string, mode uint32, dev int) error {
		return unix.Mknod(filepath.Join(root, p), mode, dev)
	}
	deep := "usr/deep" + strings.Repeat("/"+strings.Repeat("d", 60), 40)
	bottom = func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		err := errors.Join(
			nastyBase(root),
			write(at("usr/covered"), "of the first layer"), write(at("usr/whited/out"), "gone"), write(at("usr/hides/old"), "hidden by an opaque one"),
			write(at("usr/merged/a"), "a"), write(at("usr/merged/b"), strings.Repeat("b", 3<<20)),
			os.MkdirAll(at("run/x"), 0o755), mk(root, "usr/socket", unix.S_IFSOCK|0o640, 0), mk(root, "usr/fifo", unix.S_IFIFO|0o604, 0),
			mk(root, "usr/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), mk(root, "usr/wide", unix.S_IFCHR|0o600, int(unix.Mkdev(4000, 300000))),
			unix.Setxattr(at("usr/null"), "trusted.of", []byte("a device"), 0), unix.Setxattr(at("usr/covered"), "user.long", []byte(strings.Repeat("v", 3000)), 0),
			write(at(deep+"/leaf"), "deep"), write(at("usr/"+strings.Repeat("n", 255)), "a long name"), write(at("usr/\xff\xfe\x80"), "no UTF-8"),
			os.Chown(at("usr/edited"), 4_000_000_000, 70001), sparseFile(at("usr/sparse")), write(at("usr/many/0"), ""), write(at("usr/holes"), ""),
			os.Truncate(at("usr/holes"), 300_000),
		)
		for i := 1; i < crowd && err == nil; i++ {
			if path := at(fmt.Sprintf("usr/many/%d", i)); i%50 == 0 {
				err = os.WriteFile(path, []byte(fmt.Sprint("number ", i%1000)), 0o644)
			} else {
				err = os.Symlink(fmt.Sprint(i), path)
			}
		}
		return err
	}
	top = func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		capability := binary.LittleEndian.AppendUint32(nil, 0x02000001)
		capability = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(capability, 0x2000), 0)
		return errors.Join(
			nastyTop(root),
			write(at("usr/covered"), "of the second"), mk(root, "usr/whited", unix.S_IFCHR, 0),
			write(at("usr/hides/new"), "n"), unix.Setxattr(at("usr/hides"), "trusted.overlay.opaque", []byte("y"), 0),
			write(at("usr/merged/c"), "c"), mk(root, "usr/merged/a", unix.S_IFCHR, 0),
			write(at("opt/ping"), "p"), unix.Setxattr(at("opt/ping"), "security.capability", capability, 0),
			write(at("opt/suid"), "s"), os.Chmod(at("opt/suid"), os.ModeSetuid|os.ModeSetgid|os.ModeSticky|0o755),
			write(at("opt/hard1"), "h"), os.Link(at("opt/hard1"), at("opt/hard2")), os.Link(at("opt/hard1"), at("usr/hard3")),
			os.Symlink(strings.Repeat("t", 4000), at("opt/long-link")), unix.Lsetxattr(at("opt/long-link"), "trusted.l", []byte("l"), 0),
			// A whiteout over nothing: the engine runs such an image, and its directory lists a name that is not there.
			write(at("opt/pure/x"), "x"), mk(root, "opt/pure/stray", unix.S_IFCHR, 0), mk(root, "usr/merged/never-was", unix.S_IFCHR, 0),
			write(at("opt/1950"), "old"), os.Chtimes(at("opt/1950"), time.Time{}, time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC)),
			write(at("opt/2200"), "new"), os.Chtimes(at("opt/2200"), time.Time{}, time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)),
		)
	}
	return bottom, top
}

// TestBaseIsTheImage compares a base with what the kernel shows of the image's layers, as the kernel and unsquashfs
// read it.
func TestBaseIsTheImage(t *testing.T) {
	bottom, top := awkwardLayers(600)
	f := newFixture(t, bottom, top)
	l := newLibrary(t)
	b, point := f.sameBase(l)
	if b.Losses.Times != 2 || !slices.Contains(b.Losses.Paths, "/opt/1950") || !slices.Contains(b.Losses.Paths, "/opt/2200") {
		t.Errorf("losses %+v", b.Losses)
	}
	unpacked := filepath.Join(t.TempDir(), "out")
	if out, err := exec.Command("unsquashfs", "-q", "-n", "-d", unpacked, l.dir.Base(b.Part.Digest)).CombinedOutput(); err != nil {
		t.Fatalf("unsquashfs: %v: %s", err, out)
	}
	for _, d := range treetest.Diff(treetest.List(t, point), treetest.List(t, unpacked)) {
		t.Error("unsquashfs:", d)
	}
	for path, want := range map[string]int64{"opt/1950": 0, "opt/2200": 1<<32 - 1} {
		if st, err := os.Stat(filepath.Join(point, path)); err != nil || st.ModTime().Unix() != want {
			t.Errorf("%s has the time %v, %v", path, st.ModTime(), err)
		}
	}
	again, err := newLibrary(t).prepareBase(t.Context(), f.source(), nil)
	if must(t, err); again.Part != b.Part {
		t.Errorf("another conversion gives %+v, not %+v", again.Part, b.Part)
	}
}

// TestBaseOfManyFiles has more entries than 16 bits count, as TestALargeDirectory of package squashfs has in one image
// that it makes.
func TestBaseOfManyFiles(t *testing.T) {
	testenv.Long(t)
	bottom, top := awkwardLayers(66_000)
	newFixture(t, bottom, top).sameBase(newLibrary(t))
}

// sameBase makes the base of the image and compares it with the layers.
func (f *fixture) sameBase(l *Library) (b baseRecord, point string) {
	f.t.Helper()
	b, err := l.prepareBase(f.t.Context(), f.source(), nil)
	must(f.t, err)
	noLeftovers(f.t, l)
	point = mountAt(f.t, l.dir.Base(b.Part.Digest), 0)
	strays := []string{"opt/pure/stray", "usr/merged/never-was"}
	skip := append(append(leftOut(), "home", "opt/1950", "opt/2200"), strays...)
	st, err := os.Stat(f.layers[0])
	must(f.t, err, os.Chtimes(f.upper, time.Time{}, st.ModTime())) // the upper directory is the topmost in what lines describes
	for _, d := range treetest.Diff(f.lines(skip...), treetest.List(f.t, point, skip...)) {
		f.t.Error(d)
	}
	for _, path := range strays {
		if _, err := os.Lstat(filepath.Join(point, path)); !errors.Is(err, os.ErrNotExist) {
			f.t.Errorf("%s: %v", path, err)
		}
	}
	return b, point
}

// mountAt mounts the squashfs that begins at offset of a file through the kernel.
func mountAt(t testing.TB, file string, offset int64) string {
	t.Helper()
	testenv.Need(t, testenv.Loop)
	point := t.TempDir()
	out, err := exec.Command("mount", "-t", "squashfs", "-o", fmt.Sprintf("loop,ro,offset=%d", offset), file, point).CombinedOutput()
	if err != nil {
		t.Fatalf("mount %s: %v: %s", file, err, out)
	}
	t.Cleanup(func() { must(t, unix.Unmount(point, 0)) })
	return point
}
