package export

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/images/squashfs"
)

// plan makes trees by hand: paths to nodes. One node under several paths is a hard link.
type plan map[string]*squashfs.Node

func (p plan) tree() *squashfs.Node { return p.dir("/") }

func (p plan) dir(at string) *squashfs.Node {
	n := squashfs.Node{Kind: squashfs.Dir, Mode: 0o755}
	if given := p[at]; given != nil {
		n = *given
	}
	n.Children = nil
	names := map[string]bool{}
	for path := range p {
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(at, "/")+"/")
		if below && rest != "" {
			name, _, _ := strings.Cut(rest, "/")
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		path := join(at, name)
		child := p[path]
		if child == nil || child.Kind == squashfs.Dir {
			child = p.dir(path)
		}
		n.Children = append(n.Children, squashfs.Entry{Name: name, Node: child})
	}
	return &n
}

func directory(mode uint16) *squashfs.Node {
	return &squashfs.Node{Kind: squashfs.Dir, Mode: mode}
}

// stored makes a file whose content stands at a place in the image.
func stored(at uint64, mode uint16) *squashfs.Node {
	return &squashfs.Node{Kind: squashfs.File, Mode: mode, Data: &squashfs.Data{Start: at, Size: 10, Blocks: []uint32{10}, Fragment: squashfs.NoFragment}}
}

func symlink(to string) *squashfs.Node {
	return &squashfs.Node{Kind: squashfs.Symlink, Mode: 0o777, Target: to}
}

// told writes changes in short: what, path, opaque, link.
func told(base, env *squashfs.Node) []string {
	var out []string
	for c := range Changes(base, env) {
		line := c.What.String() + " " + c.Path
		if c.Opaque {
			line += " opaque"
		}
		if c.Link != "" {
			line += " = " + c.Link
		}
		out = append(out, line)
	}
	return out
}

func TestChanges(t *testing.T) {
	two, moved := stored(1, 0o644), stored(1, 0o600)
	empty, other := &squashfs.Node{Kind: squashfs.File}, &squashfs.Node{Kind: squashfs.File}
	attributed := func(x ...squashfs.Xattr) *squashfs.Node {
		n := stored(1, 0o644)
		n.Xattrs = &squashfs.Xattrs{List: x}
		return n
	}
	for _, tc := range []struct {
		name      string
		base, env plan
		want      []string
	}{
		{"nothing", plan{"/a/b": stored(1, 0o644)}, plan{"/a/b": stored(1, 0o644)}, nil},
		{"no xattrs are none", plan{"/a": stored(1, 0o644)}, plan{"/a": attributed()}, nil},
		{"added", plan{"/a/x": stored(1, 0)}, plan{"/a/x": stored(1, 0), "/a/y/z": stored(2, 0)}, []string{"passed /", "passed /a", "added /a/y", "added /a/y/z"}},
		{"content", plan{"/a/b": stored(1, 0o644)}, plan{"/a/b": stored(2, 0o644)}, []string{"passed /", "passed /a", "replaced /a/b"}},
		{"mode", plan{"/a/b": stored(1, 0o644)}, plan{"/a/b": stored(1, 0o600)}, []string{"passed /", "passed /a", "changed /a/b"}},
		{"xattr", plan{"/a": attributed(squashfs.Xattr{Name: "user.a", Value: []byte{1}})}, plan{"/a": attributed(squashfs.Xattr{Name: "user.a", Value: []byte{2}})}, []string{"passed /", "changed /a"}},
		{"directory's mode", plan{"/a/b": stored(1, 0)}, plan{"/a": directory(0o700), "/a/b": stored(1, 0)}, []string{"passed /", "changed /a"}},
		{"root's mode", plan{"/a": stored(1, 0)}, plan{"/": directory(0o700), "/a": stored(1, 0)}, []string{"changed /"}},
		{"symlink", plan{"/a": symlink("x")}, plan{"/a": symlink("y")}, []string{"passed /", "replaced /a"}},
		{"deleted", plan{"/a/b": stored(1, 0), "/a/c/d": stored(2, 0), "/a/e": stored(3, 0)}, plan{"/a/e": stored(3, 0)}, []string{"passed /", "passed /a", "deleted /a/b", "deleted /a/c"}},
		{"emptied", plan{"/a/b": stored(1, 0)}, plan{"/a": directory(0o755)}, []string{"passed /", "replaced /a opaque"}},
		{"made again", plan{"/a/b": stored(1, 0), "/a/c": stored(2, 0)}, plan{"/a/c": stored(3, 0)}, []string{"passed /", "replaced /a opaque", "added /a/c"}},
		{"root is never opaque", plan{"/a": stored(1, 0)}, plan{"/b": stored(2, 0)}, []string{"passed /", "deleted /a", "added /b"}},
		{"file to directory", plan{"/a": stored(1, 0)}, plan{"/a/b": stored(2, 0)}, []string{"passed /", "replaced /a opaque", "added /a/b"}},
		{"directory to file", plan{"/a/b": stored(1, 0)}, plan{"/a": stored(2, 0)}, []string{"passed /", "replaced /a"}},
		{"only what changed leads there", plan{"/a/b/c": stored(1, 0), "/d/e": stored(2, 0)}, plan{"/a/b/c": stored(1, 0), "/d/e": stored(3, 0)}, []string{"passed /", "passed /d", "replaced /d/e"}},
		{"linked as before", plan{"/a": two, "/b": two}, plan{"/a": moved, "/b": moved}, []string{"passed /", "changed /a", "changed /b = /a"}},
		{"a third name", plan{"/a": two, "/b": two}, plan{"/a": two, "/b": two, "/c": two}, []string{"passed /", "changed /a", "changed /b = /a", "added /c = /a"}},
		{"one name less", plan{"/a": two, "/b": two}, plan{"/b": two}, []string{"passed /", "deleted /a"}},
		{"one name changed", plan{"/a": two, "/b": two}, plan{"/a": stored(9, 0o644), "/b": two}, []string{"passed /", "replaced /a"}},
		{"linked together", plan{"/a": stored(1, 0), "/b": stored(2, 0)}, plan{"/a": two, "/b": two}, []string{"passed /", "changed /a", "replaced /b = /a"}},
		{"empty files apart", plan{"/a": empty, "/b": empty}, plan{"/a": empty, "/b": other}, []string{"passed /", "changed /b"}},
		{"empty files together", plan{"/a": empty, "/b": other}, plan{"/a": empty, "/b": empty}, []string{"passed /", "changed /a", "changed /b = /a"}},
		{"byte order", plan{}, plan{"/a.b": empty, "/a/c": other, "/a-": symlink("x")}, []string{"passed /", "added /a", "added /a/c", "added /a-", "added /a.b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, told(tc.base.tree(), tc.env.tree())); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
		})
	}
}

func TestChangesCanBeLeft(t *testing.T) {
	base, env := plan{"/a/b": stored(1, 0), "/z": stored(4, 0)}.tree(), plan{"/a/b": stored(2, 0), "/c/d": stored(3, 0)}.tree()
	all := len(told(base, env))
	for stop := 1; stop <= all; stop++ {
		seen := 0
		for range Changes(base, env) {
			if seen++; seen == stop {
				break
			}
		}
		if seen != stop {
			t.Errorf("saw %d of %d", seen, stop)
		}
	}
}

// TestChangesOverTheBaseGiveTheEnvironment stacks random changes as an overlay would, and compares trees.
func TestChangesOverTheBaseGiveTheEnvironment(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		base := randomPlan(r, plan{})
		env := randomPlan(r, base)
		want := flat(plan(env).tree())
		got := stack(plan(base).tree(), plan(env).tree())
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d (-environment +overlay):\n%s\nchanges %q", seed, d, told(base.tree(), env.tree()))
		}
	}
}

// randomPlan changes a plan at random places.
func randomPlan(r *rand.Rand, from plan) plan {
	out := maps.Clone(from)
	names := []string{"a", "b", "c"}
	path := func() string {
		p := ""
		for range 1 + r.IntN(2) {
			p += "/" + names[r.IntN(len(names))]
		}
		return p
	}
	for range 1 + r.IntN(15) {
		at := path()
		switch r.IntN(7) {
		case 0:
			out.remove(at)
		case 1:
			out.put(at, directory(uint16(0o700+r.IntN(2))))
		case 2:
			out.put(at, symlink(names[r.IntN(2)]))
		case 3:
			out.put(at, &squashfs.Node{Kind: squashfs.File, Mode: uint16(r.IntN(2))})
		case 4:
			if n := out[at]; n != nil && n.Kind != squashfs.Dir { // another mode for all names
				c := *n
				c.Mode ^= 1
				for path := range out {
					if out[path] == n {
						out[path] = &c
					}
				}
			}
		case 5:
			if n := out[path()]; n != nil && n.Kind != squashfs.Dir {
				out.put(at, n)
			}
		default:
			out.put(at, stored(r.Uint64(), 0o644))
		}
	}
	return out
}

func (p plan) remove(path string) {
	for other := range p {
		if other == path || strings.HasPrefix(other, path+"/") {
			delete(p, other)
		}
	}
}

// put makes room at a path: what lies below it or stands in its way goes.
func (p plan) put(path string, n *squashfs.Node) {
	if old := p[path]; n.Kind != squashfs.Dir || old != nil && old.Kind != squashfs.Dir {
		p.remove(path)
	}
	for i := 1; i < len(path); i++ {
		if above := p[path[:i]]; path[i] == '/' && above != nil && above.Kind != squashfs.Dir {
			delete(p, path[:i])
		}
	}
	p[path] = n
}

// flat describes a tree: for each path its attributes, place of content, and the first name of its inode.
func flat(root *squashfs.Node) map[string]string {
	out, first := map[string]string{}, map[*squashfs.Node]string{}
	for c := range Changes(nil, root) {
		if first[c.Node] == "" {
			first[c.Node] = c.Path
		}
		out[c.Path] = line(c.Node, first[c.Node])
	}
	return out
}

func line(n *squashfs.Node, first string) string {
	s := fmt.Sprintf("%s %o %q first %s", n.Kind, n.Mode, n.Target, first)
	if n.Data != nil {
		s += fmt.Sprintf(" at %d", n.Data.Start)
	}
	if n.Kind == squashfs.Dir {
		s = fmt.Sprintf("%s %o", n.Kind, n.Mode)
	}
	return s
}

// stack describes what an overlay shows: the changes on top, and the base where they let it through.
func stack(base, env *squashfs.Node) map[string]string {
	type top struct {
		node  *squashfs.Node
		inode string
	}
	upper, hidden := map[string]top{}, map[string]bool{}
	for c := range Changes(base, env) {
		if c.What == Deleted || c.Opaque || c.Node.Kind != squashfs.Dir {
			hidden[c.Path] = true
		}
		if c.What == Deleted {
			continue
		}
		upper[c.Path] = top{c.Node, "upper " + c.Path}
		if c.Link != "" {
			upper[c.Path] = top{c.Node, "upper " + c.Link}
		}
	}
	inodes, nodes := map[string]string{}, map[string]*squashfs.Node{}
	for path, u := range upper {
		inodes[path], nodes[path] = u.inode, u.node
	}
	for c := range Changes(nil, base) {
		through := upper[c.Path].node == nil
		for path := range hidden {
			through = through && c.Path != path && !strings.HasPrefix(c.Path, path+"/")
		}
		if through {
			nodes[c.Path], inodes[c.Path] = c.Node, fmt.Sprintf("base %p", c.Node)
		}
	}
	// The first name in the order of a walk, in which "/" comes before every other byte.
	order := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) })
	out, first := map[string]string{}, map[string]string{}
	for _, path := range order {
		if first[inodes[path]] == "" {
			first[inodes[path]] = path
		}
		out[path] = line(nodes[path], first[inodes[path]])
	}
	return out
}
