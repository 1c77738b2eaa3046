package overlay

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOverlayOf(t *testing.T) {
	text, err := os.ReadFile("testdata/mountinfo-26.1-containerd")
	if err != nil {
		t.Fatal(err)
	}
	const id = "1a7689c45a58b9d047ebb2bc83e407b76580ca2cd81bf242b78e6b1c9e5bf734"
	const snapshots = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/"
	got, found := overlayOf(string(text), id)
	want := Mount{target: "/var/lib/docker/rootfs/overlayfs/" + id, upper: snapshots + "5/fs", lowers: []string{snapshots + "4/fs", snapshots + "1/fs"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Mount{})); !found || diff != "" {
		t.Errorf("overlayOf = %v %s", found, diff)
	}
	if o, found := overlayOf(string(text), "9aa3f982"); found {
		t.Errorf("overlayOf of no whole name = %+v", o)
	}
}

func TestOverlayOptions(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want Mount
		ok   bool
	}{
		"spaces and commas": {`1 2 0:3 / /a\040b rw shared:1 - overlay none rw,lowerdir=/l\0541:/l\0402,upperdir=/u\134,workdir=/w`,
			Mount{target: "/a b", upper: `/u\`, lowers: []string{"/l,1", "/l 2"}}, true},
		"a colon in a name":   {`1 2 0:3 / /a rw - overlay none rw,lowerdir=/l\134:1:/l2,upperdir=/u`, Mount{target: "/a", upper: "/u", lowers: []string{"/l:1", "/l2"}}, true},
		"one by one":          {`1 2 0:3 / /a rw - overlay none rw,lowerdir+=/l1,lowerdir+=/l:2,upperdir=/u`, Mount{target: "/a", upper: "/u", lowers: []string{"/l1", "/l:2"}}, true},
		"data only":           {`1 2 0:3 / /a rw - overlay none rw,lowerdir+=/l1,datadir+=/d,upperdir=/u`, Mount{target: "/a", upper: "/u", lowers: []string{"/l1"}, alien: "datadir+"}, true},
		"read-only":           {`1 2 0:3 / /a rw - overlay none ro,lowerdir=l/A:l/B`, Mount{target: "/a", lowers: []string{"l/A", "l/B"}}, true},
		"another file system": {`1 2 0:3 / /a rw - ext4 /dev/vda rw`, Mount{}, false},
		"cut short":           {`1 2 0:3 / /a rw -`, Mount{}, false},
		"nothing":             {"", Mount{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := overlayOf(test.line+"\n", path.Base(test.want.target))
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(Mount{})); ok != test.ok || diff != "" {
				t.Errorf("overlayOf = %v, %s", ok, diff)
			}
		})
	}
}

// TestResolve: short and relative names lead to the directories, and one that is missing is named.
func TestResolve(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"id1/diff", "id2/diff", "id3/diff", "l"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"A": "../id1/diff", "B": "../id2/diff"} {
		if err := os.Symlink(to, filepath.Join(root, "l", link)); err != nil {
			t.Fatal(err)
		}
	}
	upper := filepath.Join(root, "id3/diff")
	got, err := Mount{upper: upper, lowers: []string{"l/A", filepath.Join(root, "l/B")}}.Resolve()
	want := Stack{Upper: upper, Layers: []string{filepath.Join(root, "id1/diff"), filepath.Join(root, "id2/diff")}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Stack{})); err != nil || diff != "" {
		t.Errorf("resolve = %v %s", err, diff)
	}
	for name, o := range map[string]Mount{
		"l/C":               {upper: upper, lowers: []string{"l/C"}},
		"directories alone": {target: "/t", upper: upper, lowers: []string{"l/A", "", "l/B"}},
		"cannot be seen":    {upper: "relative", lowers: []string{"l/A"}},
		"/t":                {target: "/t", lowers: []string{"l/A"}},
	} {
		if got, err := o.Resolve(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("resolve(%+v) = %+v, %v, want an error that names %s", o, got, err, name)
		}
	}
}

func FuzzOverlayOf(f *testing.F) {
	f.Add(`1 2 0:3 / /a\040b/a rw shared:1 - overlay none rw,lowerdir=/l\0541:/l\0402,upperdir=/u\134,workdir=/w`)
	f.Add(` -    - overlay \400 lowerdir=\`)
	f.Fuzz(func(t *testing.T, line string) {
		o, found := overlayOf(line+"\n"+line, "a")
		if !found && (o.target != "" || o.upper != "" || len(o.lowers) > 0) {
			t.Errorf("%+v of what is no overlay", o)
		}
		if found && !slices.Contains(strings.Split(o.target, "/"), "a") {
			t.Errorf("%+v is not of a", o)
		}
	})
}
