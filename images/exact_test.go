package images

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sylabs/sif/v2/pkg/sif"
	"golang.org/x/sys/unix"

	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/tree"
	"slipway/images/tree/treetest"
)

func nastyBase(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	return errors.Join(
		write(at("etc/passwd"), "root:x:0:0::/root:/bin/sh\n"),
		write(at("usr/gone"), "deleted"), write(at("usr/tree/a/b"), "deleted tree"),
		write(at("usr/opaque/old"), "must not come back"), write(at("usr/opaque/sub/old"), "nor this"),
		write(at("usr/file-to-dir"), "file"), write(at("usr/dir-to-file/x"), "x"),
		write(at("usr/edited"), "before"), write(at("usr/touched"), "same"), write(at("usr/chowned"), "same"),
		write(at("usr/linked"), "one of two"), os.Link(at("usr/linked"), at("usr/linked-too")),
		os.Symlink("edited", at("usr/link")), unix.Mknod(at("usr/blk"), unix.S_IFBLK|0o640, int(unix.Mkdev(259, 70000))),
		write(at("root/.ssh/id_base"), "a key in the base"), write(at("var/lib/apt/lists/index"), "list"),
		os.Chmod(at("root/.ssh"), 0o700), os.Chmod(at("var/lib"), 0o2751), os.Chown(at("var/lib"), 7, 8),
		unix.Setxattr(at("var/lib"), "user.of", []byte("a parent"), 0),
		os.MkdirAll(at("tmp"), 0o755), os.Chmod(at("tmp"), os.ModeSticky|0o777),
		os.Chtimes(at("var/lib"), time.Unix(1e9, 0), time.Unix(1e9, 0)),
		os.Chtimes(at("var/lib/apt"), time.Unix(2e9, 0), time.Unix(2e9, 0)),
	)
}

func nastyTop(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	return errors.Join(write(at("usr/second-layer"), "2"), write(at("usr/tree/c"), "from the second layer"),
		write(at("usr/lib/python3/dist-packages/numpy-1.26.dist-info/METADATA"), "Metadata-Version: 2.1\nName: numpy\nVersion: 1.26\n\nName: no\n"))
}

func nastyChanges(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	mk := func(p string, mode uint32, dev int) error { return unix.Mknod(at(p), mode, dev) }
	capability := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	capability = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(capability, 0x2000), 0)
	return errors.Join(
		os.Remove(at("usr/gone")), os.RemoveAll(at("usr/tree")),
		os.RemoveAll(at("usr/opaque")), write(at("usr/opaque/new"), "new"),
		os.Remove(at("usr/file-to-dir")), write(at("usr/file-to-dir/inside"), "in"),
		os.RemoveAll(at("usr/dir-to-file")), write(at("usr/dir-to-file"), "file"),
		write(at("usr/edited"), "after"), os.Chmod(at("usr/edited"), 0o640), os.Chown(at("usr/chowned"), 1234, 70001),
		os.Chtimes(at("usr/touched"), time.Unix(1234567890, 5e8), time.Unix(1234567890, 5e8)),
		os.Remove(at("usr/link")), os.Symlink("/nowhere/at all", at("usr/link")),
		write(at("opt/x/hard1"), "hard"), os.MkdirAll(at("opt/y"), 0o755), os.Link(at("opt/x/hard1"), at("opt/y/hard2")),
		mk("opt/fifo", unix.S_IFIFO|0o640, 0), mk("opt/chr", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 300))), mk("opt/blk", unix.S_IFBLK|0o660, int(unix.Mkdev(259, 7))),
		write(at("opt/suid"), "s"), os.Chmod(at("opt/suid"), os.ModeSetuid|os.ModeSetgid|0o755),
		write(at("opt/xattr"), "x"), unix.Setxattr(at("opt/xattr"), "user.note", bytes.Repeat([]byte("v"), 600), 0),
		unix.Lsetxattr(at("usr/link"), "trusted.link", []byte("on a link"), 0), unix.Setxattr(at("opt/y"), "trusted.dir", []byte{0, 1}, 0),
		write(at("opt/cap"), "c"), unix.Setxattr(at("opt/cap"), "security.capability", capability, 0),
		write(at("opt/acl"), "a"), unix.Setxattr(at("opt/acl"), "system.posix_acl_access", accessACL(), 0),
		sparseFile(at("opt/sparse")), write(at("opt/empty"), ""),
		write(at("opt/new\nline"), "1"), write(at("opt/Grüße ☃"), "2"), write(at("opt/.wh.name"), "3"), write(at("opt/\xff\xfe"), "4"), write(at("opt/ -rf *"), "5"),
		write(at("opt/locked"), "secret"), os.Chmod(at("opt/locked"), 0), os.Symlink("gone", at("opt/dangling")),
		unix.Mknod(at("opt/socket"), unix.S_IFSOCK|0o600, 0),
		write(at("root/.netrc"), "password"), write(at("root/.ssh/id"), "key"), write(at("tmp/x509up_u1"), "proxy"), write(at("home/alice/.cache/x"), "y"),
		write(at("opt/venv/lib/python3.11/site-packages/ana-0.1.dist-info/METADATA"), "Name: ana\nVersion: 0.1\n"),
		os.Chown(root, 3, 4), os.Chmod(root, 0o751), os.Chtimes(root, time.Unix(1500000000, 0), time.Unix(1500000000, 0)),
	)
}

func accessACL() []byte {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 6, ^uint32(0)}, {2, 4, 1}, {4, 4, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 4, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(acl, uint16(e[0])), uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	return acl
}

func sparseFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{1}, 32<<20)
	return errors.Join(err, f.Truncate(64<<20), f.Close())
}

// leftOut is what the strip rules of this fixture's tree, sockets and additions make differ.
func leftOut() []string {
	return []string{
		".singularity.d", "home/alice", "root/.netrc", "root/.ssh", "tmp/x509up_u1", "var/lib/apt/lists/index", "opt/socket", "opt/chr", "opt/blk",
		"environment", "singularity", "dev", "proc", "sys", "run", "var/tmp", "etc/hosts", "etc/resolv.conf",
	}
}

// emptied are directories that travel without their entries, and so with the base's times.
func emptied() []string { return []string{"/home", "/tmp", "/var/lib/apt/lists"} }

func TestFrozenTreeIsTheSessionsTree(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	f.change(nastyChanges)
	l := newLibrary(t)
	e := freeze(t, l, f, func(r *Request) { r.Source.Mounts = []string{"/scratch", "/home"} })

	root := mountSIF(t, l.dir.Image(e.Digest))
	want, got := treetest.Timeless(f.lines(leftOut()...), emptied()...), treetest.Timeless(treetest.List(t, root, leftOut()...), emptied()...)
	if len(want) < 50 {
		t.Fatalf("the fixture has only %d entries", len(want))
	}
	for _, d := range treetest.Diff(want, got) {
		t.Error(d)
	}
	for _, secret := range []string{"root/.netrc", "root/.ssh", "tmp/x509up_u1", "home/alice", "var/lib/apt/lists/index"} {
		if _, err := os.Lstat(filepath.Join(root, secret)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is in the image: %v", secret, err)
		}
	}
	checkManifest(t, e.Manifest)
	checkSIF(t, l.dir.Image(e.Digest), e.Manifest)
}

func checkManifest(t *testing.T, m manifest.Manifest) {
	t.Helper()
	if m.Losses.ACLs != 1 || m.Files < 50 {
		t.Errorf("losses %+v, files %d", m.Losses, m.Files)
	}
	want := manifest.Manifest{
		Mounts: []string{"/home", "/scratch"}, Sockets: []string{"/opt/socket"}, Devices: []string{"/opt/blk", "/opt/chr"}, Unexported: []string{"HOME"},
		Added: []string{"/.singularity.d", "/dev", "/environment", "/etc/hosts", "/etc/resolv.conf", "/proc", "/run", "/singularity", "/sys", "/var/tmp"},
	}
	got := manifest.Manifest{Mounts: m.Mounts, Sockets: m.Sockets, Devices: m.Devices, Unexported: m.Unexported, Added: m.Added}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
}

func checkSIF(t *testing.T, path string, want manifest.Manifest) {
	t.Helper()
	image, err := sif.LoadContainerFromPath(path, sif.OptLoadWithFlag(os.O_RDONLY))
	must(t, err)
	defer image.UnloadContainer()
	d, err := image.GetDescriptor(sif.WithDataType(sif.DataGenericJSON))
	must(t, err)
	data, err := d.GetData()
	must(t, err)
	var got manifest.Manifest
	must(t, json.Unmarshal(data, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest in the image (-record +image):\n%s", diff)
	}
	if bytes.Contains(data, []byte("alice")) || bytes.Contains(data, []byte("s1\"")) {
		t.Errorf("the image names its owner or session: %s", data)
	}
}

func TestSameTreeSameDigest(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	f.change(nastyChanges)
	l, other := newLibrary(t), newLibrary(t)
	a := freeze(t, l, f, nil)
	b := freeze(t, other, f, func(r *Request) { r.Owner, r.Key, r.Name, r.Note = "bob", "s2", "ana", "another" })
	if a.Digest != b.Digest || b.Unchanged {
		t.Errorf("two libraries made %s and %s of one tree", a.Digest, b.Digest)
	}
	must(t, os.WriteFile(filepath.Join(f.upper, "opt/empty"), []byte("x"), 0o644))
	if c := freeze(t, l, f, nil); c.Digest == a.Digest || c.Unchanged {
		t.Error("a changed tree kept its digest")
	}
}

// TestUnknownMarksOfOverlayfs packs the whole tree as the kernel shows it, which knows what its marks mean.
func TestUnknownMarksOfOverlayfs(t *testing.T) {
	for _, tc := range []struct{ name, value string }{{"opaque", "x"}, {"future", "1"}} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			must(t, write(filepath.Join(f.upper, "usr/x"), "x"))
			must(t, unix.Setxattr(filepath.Join(f.upper, "usr"), "trusted.overlay."+tc.name, []byte(tc.value), 0))
			l := newLibrary(t)
			e := freeze(t, l, f, nil)
			if d, err := l.document(e.Digest); err != nil || d.Base != nil {
				t.Errorf("it stands on a base: %v", err)
			}
			same(t, f, l, e)
		})
	}
}

// same compares the tree of an environment with the session's; what is skipped has other tests.
func same(t *testing.T, f *fixture, l *Library, e records.Environment, skip ...string) {
	t.Helper()
	root := mountSIF(t, l.dir.Image(e.Digest))
	skip = append(append(leftOut(), "home"), skip...)
	for _, d := range treetest.Diff(treetest.Timeless(f.lines(skip...), emptied()...), treetest.Timeless(treetest.List(t, root, skip...), emptied()...)) {
		t.Error(d)
	}
	if _, err := l.Verify(t.Context(), e.Digest); err != nil {
		t.Error(err)
	}
	if again := freeze(t, l, f, nil); !again.Unchanged || again.Digest != e.Digest {
		t.Errorf("frozen again: %+v", again)
	}
}

// TestUpperThatPointsIntoTheBase lets the kernel make redirects and files without content. A directory in which the
// base lacks what strip rules match is the one that has the whole tree packed.
func TestUpperThatPointsIntoTheBase(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("whole ", whole), func(t *testing.T) {
			f := newFixture(t, nastyBase, nastyTop)
			f.options = "redirect_dir=on,metacopy=on,"
			f.change(pointingChanges(whole))
			for path, mark := range map[string]string{"usr/moved": "redirect", "opt/beside": "redirect", "usr/chowned": "metacopy", "opt/far": "metacopy"} {
				if xs, err := tree.XattrNames(filepath.Join(f.upper, path)); err != nil || !slices.Contains(xs, "trusted.overlay."+mark) {
					t.Fatalf("the kernel made no %s of %s: %q, %v", mark, path, xs, err)
				}
			}
			l := newLibrary(t)
			e := freeze(t, l, f, nil)
			if d, err := l.document(e.Digest); err != nil || (d.Base == nil) != whole {
				t.Errorf("it stands on a base: %v, %v", d.Base != nil, err)
			}
			sockets, devices := []string{"/usr/edited"}, []string{"/opt/pure/blk", "/usr/blk", "/usr/touched"}
			if m := e.Manifest; !slices.Equal(m.Sockets, sockets) || !slices.Equal(m.Devices, devices) {
				t.Errorf("skipped %q and %q", m.Sockets, m.Devices)
			}
			var skip []string
			for _, path := range append(sockets, devices...) {
				skip = append(skip, path[1:])
			}
			root := mountSIF(t, l.dir.Image(e.Digest))
			for _, path := range skip {
				if _, err := os.Lstat(filepath.Join(root, path)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is in the image: %v", path, err)
				}
			}
			same(t, f, l, e, skip...)
		})
	}
}

func pointingChanges(whole bool) func(root string) error {
	return func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		err := errors.Join(
			os.Rename(at("usr/tree"), at("usr/moved")), write(at("usr/moved/own"), "x"), os.Remove(at("usr/moved/c")), // a name beside it
			os.Rename(at("usr/opaque"), at("opt")), os.Rename(at("opt/sub"), at("opt/beside")), os.Chmod(at("opt/beside/old"), 0o600), // and again, below
			os.Mkdir(at("usr/tree"), 0o700), write(at("usr/tree/a"), "of another"), // opaque, in its old place
			os.Chown(at("usr/chowned"), 5, 6), os.Chmod(at("usr/second-layer"), 0o600), os.Rename(at("usr/second-layer"), at("opt/far")),
			os.Chmod(at("usr/linked"), 0o600), os.Link(at("usr/linked"), at("opt/linked-far")),
			write(at("root/.netrc"), "x"),
			os.Remove(at("usr/edited")), unix.Mknod(at("usr/edited"), unix.S_IFSOCK|0o600, 0), os.Remove(at("usr/touched")),
			unix.Mknod(at("usr/touched"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), write(at("opt/pure/x"), "x"),
			unix.Mknod(at("opt/pure/blk"), unix.S_IFBLK|0o600, int(unix.Mkdev(259, 7))), os.Chmod(at("usr/blk"), 0o600))
		if whole {
			err = errors.Join(err, os.Rename(at("var/lib"), at("var/moved")))
		}
		return err
	}
}

func TestLinksInTheUpperDirectoryLeadNowhere(t *testing.T) {
	f := newFixture(t, nastyBase)
	must(t, os.Symlink("/etc", filepath.Join(f.upper, "opt")))
	must(t, os.MkdirAll(filepath.Join(f.upper, "srv"), 0o755), os.Symlink("/etc/shadow", filepath.Join(f.upper, "srv/x")))
	must(t, os.Remove(filepath.Join(f.layers[0], "tmp")), os.Symlink("/", filepath.Join(f.upper, "tmp")))
	l := newLibrary(t)
	root := mountSIF(t, l.dir.Image(freeze(t, l, f, nil).Digest))
	for link, want := range map[string]string{"opt": "/etc", "srv/x": "/etc/shadow", "tmp": "/"} {
		if got, err := os.Readlink(filepath.Join(root, link)); err != nil || got != want {
			t.Errorf("%s -> %q, %v; want %q", link, got, err, want)
		}
	}
}

func TestSocketOfALiveProcessIsSkipped(t *testing.T) {
	f := newFixture(t, nastyBase)
	s, err := net.Listen("unix", filepath.Join(f.upper, "sock"))
	must(t, err)
	defer s.Close()
	if e := freeze(t, newLibrary(t), f, nil); !slices.Equal(e.Manifest.Sockets, []string{"/sock"}) {
		t.Errorf("sockets = %q", e.Manifest.Sockets)
	}
}

func TestRuntimeDirectoryIsMadeAnew(t *testing.T) {
	f := newFixture(t, nastyBase, func(root string) error {
		return errors.Join(write(filepath.Join(root, ".singularity.d", "env/50-old.sh"), "exit 1"), write(filepath.Join(root, "environment/mine"), "a directory of the user's"))
	})
	must(t, write(filepath.Join(f.upper, ".singularity.d", "runscript"), "of an earlier freeze"))
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	root := mountSIF(t, l.dir.Image(e.Digest))
	files, err := os.ReadDir(filepath.Join(root, ".singularity.d", "env"))
	if err != nil || len(files) != 3 {
		t.Errorf("env holds %v, %v", files, err)
	}
	if data, err := os.ReadFile(filepath.Join(root, ".singularity.d", "runscript")); err != nil || strings.Contains(string(data), "earlier") {
		t.Errorf("runscript is %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(root, "environment/mine")); err != nil || slices.Contains(e.Manifest.Added, "/environment") {
		t.Errorf("the user's /environment: %v; added %q", err, e.Manifest.Added)
	}
}
