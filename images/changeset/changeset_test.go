package changeset

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// TestExact: what comes out shows over the image the tree that went in, whoever of the kernel's two wrote the marks.
func TestExact(t *testing.T) {
	for _, test := range []struct {
		marks  Marks
		option string
	}{{Trusted, ""}, {User, "userxattr,"}} {
		t.Run(string(test.marks), func(t *testing.T) {
			base := baseLayer(t)
			o := newOverlay(t, test.option, base)
			o.change(nasty)
			want := standIns(lines(t, test.option, o.upper, base))
			stream := packed(t, Config{Upper: o.upper, Marks: test.marks})
			if len(stream) > 2<<20 {
				t.Errorf("the stream has %d bytes: holes travel", len(stream))
			}
			upper := unpacked(t, stream, Target{})
			if diff := treetest.Diff(want, standIns(lines(t, "", upper, base))); len(diff) > 0 {
				t.Errorf("the trees differ:\n%s", strings.Join(diff, "\n"))
			}
			var st unix.Stat_t
			must(t, unix.Stat(filepath.Join(upper, "opt/hole"), &st))
			if st.Blocks > 0 || st.Size != 16<<20 {
				t.Errorf("the hole has %d blocks, size %d", st.Blocks, st.Size)
			}
			must(t, unix.Lstat(filepath.Join(upper, "usr/touched"), &st))
			if st.Mtim.Nsec != 123456789 {
				t.Errorf("a fraction of a second was lost: %d", st.Mtim.Nsec)
			}
		})
	}
}

// TestOverAnEnvironment: changes over changes are, over the image, what the session showed that was started from the
// first.
func TestOverAnEnvironment(t *testing.T) {
	base := baseLayer(t)
	first := newOverlay(t, "", base)
	first.change(nasty)
	second := newOverlay(t, "", first.upper, base)
	second.change(func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		return errors.Join(
			write(at("usr/gone/now/a/directory"), "d"), write(at("usr/tree/a/again"), "without b"), // over whiteouts
			os.RemoveAll(at("usr/opaque")), write(at("usr/file-to-dir/more"), "m"),
			os.Remove(at("usr/dir-to-file")), os.Mkdir(at("usr/dir-to-file"), 0o750), // x must not come back
			os.RemoveAll(at("opt/moved")), write(at("opt/moved"), "a file"), write(at("opt/x/hard1"), "its own"),
			unix.Removexattr(at("opt/y"), "trusted.dir"), os.Remove(at("opt/empty")), os.Chmod(at("opt"), 0o700), os.Remove(at("opt/sparse")),
		)
	})
	fill := func(_ context.Context, upper string) error {
		return exec.Command("cp", "-a", first.upper+"/.", upper).Run()
	}
	upper := unpacked(t, packed(t, Config{Upper: second.upper, Marks: Trusted}), Target{Fill: fill})
	if !exists(filepath.Join(upper, "opt/empty")) {
		t.Error("without layers all deletions are marked")
	}
	bare := unpacked(t, packed(t, Config{Upper: second.upper, Marks: Trusted}), Target{Fill: fill, Layers: []string{base}})
	if exists(filepath.Join(bare, "opt/empty")) || !exists(filepath.Join(bare, "usr/gone")) {
		t.Error("with layers a deletion is marked that hides nothing, or one is not that does")
	}
	want := lines(t, "", second.upper, first.upper, base)
	if diff := treetest.Diff(want, lines(t, "", bare, base)); len(diff) > 0 {
		t.Errorf("the trees differ:\n%s", strings.Join(diff, "\n"))
	}
	if diff := treetest.Diff(want, lines(t, "", upper, base)); len(diff) > 0 {
		t.Errorf("the trees differ:\n%s", strings.Join(diff, "\n"))
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestFuse reads what fuse-overlayfs writes.
func TestFuse(t *testing.T) {
	base := baseLayer(t)
	upper := t.TempDir()
	at := func(p string) string { return filepath.Join(upper, p) }
	must(t,
		write(at("usr/.wh.gone"), ""), write(at("usr/opaque/.wh..wh..opq"), ""), write(at("usr/opaque/new"), "n"),
		unix.Mknod(at("usr/opaque/.wh..opq"), unix.S_IFCHR, 0), unix.Mknod(at("usr/edited"), unix.S_IFCHR, 0),
		write(at("usr/tree/x"), "x"), unix.Setxattr(at("usr/tree"), "user.fuseoverlayfs.opaque", []byte("y"), 0),
		write(at("usr/file-to-dir/inside"), "in"), write(at("usr/.wh.file-to-dir"), ""),
		write(at("usr/touched"), "t"), unix.Setxattr(at("usr/touched"), "user.fuseoverlayfs.override_stat", []byte("7:8:4755"), 0),
		unix.Setxattr(at("usr/touched"), "user.fuseoverlayfs.origin", []byte("o"), 0), unix.Setxattr(at("usr/touched"), "user.own", []byte("u"), 0),
		write(at("usr/pipe"), ""), unix.Setxattr(at("usr/pipe"), "user.containers.override_stat", []byte("0:0:600:pipe"), 0),
	)
	out := unpacked(t, packed(t, Config{Upper: upper, Marks: Fuse}), Target{})
	got := lines(t, "", out, base)
	for _, want := range []string{
		`"/usr/opaque/new" `, `"/usr/tree/x" `, `"/usr/file-to-dir/inside" `, `"/usr/touched" mode 104755 owner 7:8 `, `"/usr/pipe" mode 010600 `,
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, line := range got {
		for _, bad := range []string{".wh.", "/usr/gone", "/usr/edited", "/usr/tree/a", "/usr/opaque/old", "overlayfs"} {
			if strings.Contains(line, bad) {
				t.Errorf("there is %s", line)
			}
		}
		if strings.HasPrefix(line, `"/usr/touched"`) && !strings.Contains(line, `"user.own"=75`) {
			t.Errorf("its own attribute is gone: %s", line)
		}
	}
}

// TestOwner: of a session with one owner, what is new becomes the one's that is given, and the image's directories stay
// their owner's.
func TestOwner(t *testing.T) {
	base := baseLayer(t)
	o := newOverlay(t, "", base)
	o.change(func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		return errors.Join(write(at("opt/new/file"), "x"), unix.Setxattr(at("opt/new/file"), "user.a", []byte("b"), 0),
			unix.Setxattr(at("opt/new/file"), "trusted.a", []byte("b"), 0), os.RemoveAll(at("usr/tree")), write(at("usr/tree/x"), "x"),
			os.Chown(at("opt"), 1000, 1000), os.Chown(at("opt/new"), 1000, 1000))
	})
	upper := unpacked(t, packed(t, Config{Upper: o.upper, Marks: Trusted}), Target{Owner: &Owner{77, 78}, Layers: []string{base}})
	for path, want := range map[string][2]uint32{
		"": {0, 0}, "opt": {5, 6}, "opt/new": {77, 78}, "opt/new/file": {77, 78}, "usr": {0, 0}, "usr/tree": {77, 78},
	} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(upper, path), &st))
		if got := [2]uint32{st.Uid, st.Gid}; got != want {
			t.Errorf("/%s is of %v, want %v", path, got, want)
		}
	}
	if list, err := tree.XattrNames(filepath.Join(upper, "opt/new/file")); err != nil || len(list) != 1 || list[0] != "user.a" {
		t.Errorf("attributes %q, %v", list, err)
	}
}

// TestDevicesAreSeenAndNotMade: whoever packs them, whatever they are called and linked to, over an environment too.
func TestDevicesAreSeenAndNotMade(t *testing.T) {
	base := baseLayer(t)
	o := newOverlay(t, "", base)
	o.change(func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		return errors.Join(unix.Mknod(at("opt/disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))), os.Link(at("opt/disk"), at("opt/disk-too")),
			os.Remove(at("usr/edited")), unix.Mknod(at("usr/edited"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))), os.Link(at("usr/edited"), at("usr/zero-too")),
			os.RemoveAll(at("usr/opaque")), os.Mkdir(at("usr/opaque"), 0o755), os.Link(at("usr/edited"), at("usr/opaque/zero")),
			unix.Setxattr(at("opt/disk"), "trusted.a", []byte("b"), 0))
	})
	stream := packed(t, Config{Upper: o.upper, Marks: Trusted})
	nothing := func(context.Context, string) error { return nil }
	for name, target := range map[string]Target{"of root": {}, "of a user": {Owner: &Owner{77, 78}, Layers: []string{base}}, "filled": {Fill: nothing, Layers: []string{base}}} {
		upper := unpacked(t, stream, target)
		for _, path := range []string{"opt/disk", "opt/disk-too", "usr/edited", "usr/zero-too", "usr/opaque/zero"} {
			var st unix.Stat_t
			must(t, unix.Lstat(filepath.Join(upper, path), &st))
			if st.Mode != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) || st.Uid|st.Gid != 0 || st.Nlink != 1 {
				t.Errorf("%s, /%s: mode %o, device %x, owner %d:%d, %d names", name, path, st.Mode, st.Rdev, st.Uid, st.Gid, st.Nlink)
			}
		}
	}
}

// standIns writes the devices of a list as what comes of them.
func standIns(list []string) []string {
	var out []string
	for _, line := range list {
		name, rest, _ := strings.Cut(line, " mode ")
		if strings.HasPrefix(rest, "020") || strings.HasPrefix(rest, "060") {
			line = name
		}
		out = append(out, line)
	}
	return out
}

// TestWhileItRuns: contents travel before the pause, and the tree is that of the pause.
func TestWhileItRuns(t *testing.T) {
	base := baseLayer(t)
	o := newOverlay(t, "", base)
	o.change(func(root string) error {
		at := func(p string) string { return filepath.Join(root, "opt", p) }
		return errors.Join(write(at("kept"), strings.Repeat("k", 1<<20)), write(at("changes"), strings.Repeat("a", 1<<20)), write(at("goes"), "g"), write(at("d/x"), "x"))
	})
	for _, name := range []string{"opt/kept", "opt/changes"} { // younger files are left to the pause
		st, err := os.Stat(filepath.Join(o.upper, name))
		must(t, err)
		for time.Since(st.ModTime()) < 2*tick {
			runtime.Gosched()
		}
	}
	var calls []string
	cfg := Config{Upper: o.upper, Marks: Trusted}
	cfg.Pause = func(context.Context) error {
		calls = append(calls, "pause")
		at := func(p string) string { return filepath.Join(o.upper, "opt", p) }
		return errors.Join(write(at("changes"), "after"), os.Remove(at("goes")), write(at("comes"), "c"), os.RemoveAll(at("d")), write(at("d"), "a file"))
	}
	cfg.Resume = func(context.Context) error { calls = append(calls, "resume"); return nil }
	stream := packed(t, cfg)
	if got := strings.Join(calls, " "); got != "pause resume" {
		t.Errorf("calls: %s", got)
	}
	if len(stream) < 2<<20 || len(stream) > 5<<20/2 {
		t.Errorf("the stream has %d bytes, want both megabytes once", len(stream))
	}
	upper := unpacked(t, stream, Target{})
	if diff := treetest.Diff(lines(t, "", o.upper, base), lines(t, "", upper, base)); len(diff) > 0 {
		t.Errorf("the trees differ:\n%s", strings.Join(diff, "\n"))
	}
	cfg.Pause = func(context.Context) error { calls = append(calls, "pause"); return errors.New("no such session") }
	if err := Pack(t.Context(), cfg, new(strings.Builder)); err == nil || calls[len(calls)-1] != "resume" {
		t.Errorf("a failed pause: %v, calls %v", err, calls)
	}
}

// TestStrip: what a rule matches does not travel.
func TestStrip(t *testing.T) {
	base := baseLayer(t)
	o := newOverlay(t, "", base)
	o.change(func(root string) error {
		return errors.Join(write(filepath.Join(root, "opt/.ssh/id"), "THE-KEY"), write(filepath.Join(root, "opt/other"), "o"))
	})
	strip, err := tree.ExactStrip([]string{"/opt/.ssh"})
	must(t, err)
	stream := packed(t, Config{Upper: o.upper, Marks: Trusted, Strip: strip})
	if strings.Contains(string(stream), "THE-KEY") || !strings.Contains(string(stream), "other") {
		t.Error("the stream holds the wrong files")
	}
}

// TestRefused: what does not tell the whole tree, and what nobody could mean.
func TestRefused(t *testing.T) {
	baseLayer(t)
	for name, test := range map[string]struct {
		marks Marks
		xattr string
		value string
	}{
		"redirect": {Trusted, "trusted.overlay.redirect", "/opt"}, "metacopy": {Trusted, "trusted.overlay.metacopy", ""},
		"opaque": {User, "user.overlay.opaque", "z"}, "a mark of the other kind": {User, "trusted.overlay.opaque", "y"},
		"override": {Fuse, "user.fuseoverlayfs.override_stat", "0:0"}, "no marks": {"", "user.x", "y"},
	} {
		upper := t.TempDir()
		must(t, write(filepath.Join(upper, "opt/x"), "x"), unix.Setxattr(filepath.Join(upper, "opt"), test.xattr, []byte(test.value), 0))
		var b strings.Builder
		err := Pack(t.Context(), Config{Upper: upper, Marks: test.marks}, &b)
		if err == nil {
			t.Errorf("%s: it is packed", name)
			continue
		}
		dir := t.TempDir()
		_, told := Unpack(t.Context(), strings.NewReader(b.String()), Target{Dir: dir})
		if told == nil || errs.KindOf(told) != errs.KindOf(err) && test.marks != "" {
			t.Errorf("%s: the other side is told %v, of %v", name, told, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// firstWrite keeps what was written first.
type firstWrite struct{ bytes []byte }

func (w *firstWrite) Write(b []byte) (int, error) {
	if w.bytes == nil {
		w.bytes = bytes.Clone(b)
	}
	return len(b), nil
}

// TestPackSpeaksWhileItCounts: whoever waits for a large tree hears of it before it is counted.
func TestPackSpeaksWhileItCounts(t *testing.T) {
	testenv.Need(t, testenv.Root)
	upper := t.TempDir()
	must(t, write(filepath.Join(upper, "a"), "1"), write(filepath.Join(upper, "b"), "22"))
	var first firstWrite
	must(t, Pack(t.Context(), Config{Upper: upper, Marks: Trusted}, &first))
	if want := magic + string([]byte{frameTotals, 2, 1, 1}); string(first.bytes) != want {
		t.Errorf("it says first %q, want %q", first.bytes, want)
	}
	got := unpacked(t, packed(t, Config{Upper: upper, Marks: Trusted}), Target{})
	if !exists(filepath.Join(got, "b")) {
		t.Error("what is said twice is not understood")
	}
}
