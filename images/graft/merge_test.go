package graft

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

func must(t testing.TB, list ...error) {
	t.Helper()
	for _, err := range list {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func noRules(t testing.TB, extra ...string) *tree.Strip {
	t.Helper()
	s, err := tree.NewStrip(extra)
	must(t, err)
	return s
}

// dirOf makes a directory by hand; file a file of the size given.
func dirOf(children ...squashfs.Entry) *squashfs.Node {
	return &squashfs.Node{Kind: squashfs.Dir, Mode: 0o755, Children: children}
}

func file(name string, size uint64) squashfs.Entry {
	return squashfs.Entry{Name: name, Node: &squashfs.Node{Kind: squashfs.File, Data: &squashfs.Data{Size: size}}}
}

func sub(name string, children ...squashfs.Entry) squashfs.Entry {
	return squashfs.Entry{Name: name, Node: dirOf(children...)}
}

func gone(name string) squashfs.Entry { return squashfs.Entry{Name: name} }

// paths lists a tree: files with their sizes.
func paths(n *squashfs.Node) []string {
	var out []string
	for _, e := range n.Children {
		if e.Node.Kind != squashfs.Dir {
			out = append(out, fmt.Sprintf("%s:%d", e.Name, e.Node.Size()))
			continue
		}
		out = append(out, e.Name+"/")
		for _, p := range paths(e.Node) {
			out = append(out, e.Name+"/"+p)
		}
	}
	return out
}

func TestMerge(t *testing.T) {
	base := []squashfs.Entry{file("a", 1), file("b", 1), sub("d", file("x", 1)), file("e", 1)}
	for name, tc := range map[string]struct {
		changes []squashfs.Entry
		rules   []string
		want    string
	}{
		"nothing":             {nil, nil, "a:1 b:1 d/ d/x:1 e:1"},
		"add at both ends":    {[]squashfs.Entry{file("0", 2), file("z", 2)}, nil, "0:2 a:1 b:1 d/ d/x:1 e:1 z:2"},
		"add between":         {[]squashfs.Entry{file("aa", 2), file("c", 2)}, nil, "a:1 aa:2 b:1 c:2 d/ d/x:1 e:1"},
		"replace":             {[]squashfs.Entry{file("a", 2), file("e", 2)}, nil, "a:2 b:1 d/ d/x:1 e:2"},
		"delete":              {[]squashfs.Entry{gone("a"), gone("d"), gone("e")}, nil, "b:1"},
		"delete what is not":  {[]squashfs.Entry{gone("0"), gone("c"), gone("z")}, nil, "a:1 b:1 d/ d/x:1 e:1"},
		"file to directory":   {[]squashfs.Entry{sub("b", file("y", 2))}, nil, "a:1 b/ b/y:2 d/ d/x:1 e:1"},
		"directory to file":   {[]squashfs.Entry{file("d", 2)}, nil, "a:1 b:1 d:2 e:1"},
		"strip a file":        {nil, []string{"/b"}, "a:1 d/ d/x:1 e:1"},
		"strip below":         {nil, []string{"/d/*"}, "a:1 b:1 d/ e:1"},
		"strip and add":       {[]squashfs.Entry{file("c", 2)}, []string{"/a", "/d"}, "b:1 c:2 e:1"},
		"what strips nothing": {nil, []string{"/d/y", "/q", "/a/x"}, "a:1 b:1 d/ d/x:1 e:1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := merge(base, tc.changes, noRules(t, tc.rules...).Top())
			if s := strings.Join(paths(dirOf(got...)), " "); s != tc.want {
				t.Errorf("got  %s\nwant %s", s, tc.want)
			}
			if same := &got[0] == &base[0]; same != (tc.want == "a:1 b:1 d/ d/x:1 e:1") {
				t.Errorf("shared with the base: %v", same)
			}
		})
	}
	if s := strings.Join(paths(dirOf(base...)), " "); s != "a:1 b:1 d/ d/x:1 e:1" {
		t.Errorf("the base has become %s", s)
	}
}

// TestMergeIsWhatAMapWouldDo compares with the obvious way on random lists.
func TestMergeIsWhatAMapWouldDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		base, changes := map[string]*squashfs.Node{}, map[string]*squashfs.Node{}
		for range r.IntN(8) {
			base[string(rune('a'+r.IntN(10)))] = dirOf()
			changes[string(rune('a'+r.IntN(10)))] = []*squashfs.Node{nil, dirOf()}[r.IntN(2)]
		}
		want := maps.Clone(base)
		maps.Copy(want, changes)
		maps.DeleteFunc(want, func(_ string, n *squashfs.Node) bool { return n == nil })
		got := map[string]*squashfs.Node{}
		list := merge(entries(base), entries(changes), nil)
		for _, e := range list {
			got[e.Name] = e.Node
		}
		if !maps.Equal(got, want) || len(list) != len(want) || !slices.IsSortedFunc(list, func(a, b squashfs.Entry) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatalf("base %v, changes %v: got %v", entries(base), entries(changes), list)
		}
	}
}

func entries(m map[string]*squashfs.Node) []squashfs.Entry {
	var out []squashfs.Entry
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, squashfs.Entry{Name: name, Node: m[name]})
	}
	return out
}

func TestStripSharesWhatItLeaves(t *testing.T) {
	base := dirOf(sub("home", sub("alice", file("key", 1))), sub("opt", sub("a", file("cache", 1), file("x", 1)), sub("b", file("x", 1))))
	got := strip(base, noRules(t, "/opt/*/cache").Top())
	if d := cmp.Diff([]string{"home/", "opt/", "opt/a/", "opt/a/x:1", "opt/b/", "opt/b/x:1"}, paths(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if lookup(got, "opt/b") != lookup(base, "opt/b") || lookup(got, "opt/a") == lookup(base, "opt/a") {
		t.Error("only what loses something may be copied")
	}
	if again := strip(got, noRules(t, "/opt/*/cache").Top()); again != got {
		t.Error("what has nothing to lose was copied")
	}
}

func TestSkeletonComesBack(t *testing.T) {
	base := dirOf(sub("etc", file("hosts", 7), file("passwd", 9)), sub("var", sub("tmp", file("old", 1))), sub("tmp"))
	lookup(base, "var").Mode = 0o2775
	for name, tc := range map[string]struct {
		root  *squashfs.Node
		added string
		tree  string // less the entries of the root that were made
	}{
		"all there": {
			dirOf(sub("dev"), file("environment", 1), sub("etc", file("hosts", 1), file("resolv.conf", 1)), sub("home"), sub("proc"),
				sub("root"), sub("run"), file("singularity", 1), sub("sys"), sub("tmp"), sub("var", sub("tmp"))), "", "",
		},
		"etc deleted":   {dirOf(sub("usr"), sub("var", sub("tmp"))), "/dev /etc /home /proc /root /run /sys /tmp /etc/hosts /etc/resolv.conf /environment /singularity", "etc/hosts:7 etc/resolv.conf:0"},
		"var deleted":   {dirOf(sub("etc", file("hosts", 1), file("resolv.conf", 0))), "/dev /home /proc /root /run /sys /tmp /var /var/tmp /environment /singularity", "var/tmp/"},
		"var is a file": {dirOf(sub("etc", file("hosts", 1), file("resolv.conf", 0)), file("var", 3)), "/dev /home /proc /root /run /sys /tmp /environment /singularity", "var:3"},
	} {
		t.Run(name, func(t *testing.T) {
			before := paths(tc.root)
			got, added := addSkeleton(tc.root, base)
			if s := strings.Join(added, " "); s != tc.added {
				t.Errorf("added %s\nwant  %s", s, tc.added)
			}
			if all := strings.Join(paths(got), " "); !strings.Contains(all, tc.tree) || strings.Contains(all, "passwd") || strings.Contains(all, "old") {
				t.Errorf("the tree is %s", all)
			}
			if d := cmp.Diff(before, paths(tc.root)); d != "" {
				t.Errorf("the tree that was given has changed:\n%s", d)
			}
			if name == "var deleted" && lookup(got, "var").Mode != 0o2775 {
				t.Errorf("/var has mode %o, not the base's", lookup(got, "var").Mode)
			}
		})
	}
}
