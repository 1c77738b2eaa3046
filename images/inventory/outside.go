package inventory

import (
	"bytes"
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"slipway/images/squashfs"
)

// The bounds of what is listed.
const (
	maxFirst   = 200
	maxLargest = 50
)

// candidate is a file of the change that no package has claimed yet.
type candidate struct {
	size int64
	old  bool // the base has a file at its path, with other content
}

// owner sorts the files of a change by whether a package has them.
type owner struct {
	l      *looker
	claims map[string]bool // files, and directories with all that they hold, that belong to something
	left   map[string]candidate
	alias  map[string]string // "/lib" -> "/usr/lib": where dpkg's lists name what the tree has elsewhere
}

// outside finds the files of the change that no package has, and those that are not as their package, which is the
// base's, made them.
func (l *looker) outside(ctx context.Context, found finds, roots []string) {
	if roots == nil {
		roots = []string{"/usr", "/opt", "/etc"}
	}
	o := &owner{l: l, claims: map[string]bool{}, left: map[string]candidate{}, alias: aliases(l.tree.Root)}
	o.claim(found)
	for _, root := range roots {
		o.collect(root)
	}
	o.lists(ctx, found, false, func(file []byte) { delete(o.left, string(file)) })
	altered := o.altered(ctx, found)
	o.report(altered)
}

// claim notes what belongs to something as a whole.
func (o *owner) claim(found finds) {
	for _, d := range found.dists {
		o.claims[d.path] = true
	}
	for _, d := range found.condaDirs {
		o.claims[d.path] = true
		o.claims[path.Join(path.Dir(d.path), "pkgs")] = true // conda's cache
	}
	for _, s := range found.spackDBs {
		o.claims[path.Dir(s.path)] = true
	}
	for _, s := range slices.Concat(found.spack, found.r, found.kernels) {
		o.claims[ownDir(s.path)] = true
	}
	for _, g := range found.gits {
		o.claims[path.Dir(g.path)] = true // told of by the checkout
	}
	o.claims["/etc/alternatives"] = true
	delete(o.claims, "/")
}

// ownDir returns the directory of the package that a metadata file speaks for.
func ownDir(file string) string {
	dir := path.Dir(file)
	if path.Base(dir) == ".spack" {
		return path.Dir(dir)
	}
	return dir
}

// collect notes the files below root that are new or have other content than in the base.
func (o *owner) collect(root string) {
	var old *squashfs.Node
	if o.l.base != nil {
		old = o.l.base.Tree.lookup(root)
	}
	d := differ{enter: func(at string) bool { return !o.claims[at] }, each: o.note}
	_ = d.dirs(strings.TrimSuffix(root, "/"), old, o.l.tree.lookup(root)) // note gives no error
}

func (o *owner) note(at string, old, now *squashfs.Node) error {
	if now == nil || now.Kind == squashfs.Dir || o.claims[at] || sameFile(old, now) || o.made(at, now) {
		return nil
	}
	if old != nil && old.Kind == squashfs.Symlink && now.Kind == squashfs.Symlink && old.Target == now.Target {
		return nil
	}
	o.left[at] = candidate{size: size(now), old: old != nil && old.Kind != squashfs.Dir}
	return nil
}

// made reports whether a file is what programs make of packages: compiled Python, the linker's cache, links of
// alternatives, what a virtual environment begins with.
func (o *owner) made(at string, n *squashfs.Node) bool {
	dir, name := path.Split(at)
	switch {
	case strings.HasSuffix(name, ".pyc"):
		return o.compiled(dir, name)
	case at == "/etc/ld.so.cache":
		return true
	case n.Kind == squashfs.Symlink && strings.HasPrefix(n.Target, "/etc/alternatives/"):
		return true
	case name == "pyvenv.cfg":
		return true
	}
	in := path.Clean(dir)
	return path.Base(in) == "bin" && ofVenv(name) && isFile(o.l.tree.lookup(path.Join(path.Dir(in), "pyvenv.cfg")))
}

// compiled reports whether the source of "__pycache__/x.cpython-313.pyc" is there.
func (o *owner) compiled(dir, name string) bool {
	source, _, _ := strings.Cut(name, ".")
	return path.Base(dir) == "__pycache__" && isFile(
		o.l.tree.lookup(path.Join(path.Dir(path.Clean(dir)), source+".py")),
	)
}

// ofVenv tells the programs that venv itself puts into bin.
func ofVenv(name string) bool {
	return strings.HasPrefix(name, "python") || strings.HasPrefix(name, "activate") || name == "Activate.ps1"
}

// altered returns the files that packages of the base have, while their packages are as before. Their lists are read
// only when there is a file that they could name.
func (o *owner) altered(ctx context.Context, found finds) []string {
	var out []string
	if !o.anyOld() {
		return nil
	}
	o.lists(ctx, found, true, func(file []byte) {
		if c, ok := o.left[string(file)]; ok && c.old {
			out = append(out, string(file))
			delete(o.left, string(file))
		}
	})
	slices.Sort(out)
	return out
}

func (o *owner) anyOld() bool {
	for _, c := range o.left {
		if c.old {
			return true
		}
	}
	return false
}

// lists calls fn with every path that packages list: those of packages that are as in the base, or of the others.
func (o *owner) lists(ctx context.Context, found finds, unchanged bool, fn func(file []byte)) {
	if len(o.left) == 0 {
		return
	}
	for _, d := range found.dists {
		if record := child(d, "RECORD"); path.Ext(d.path) == ".dist-info" && isFile(record.node) &&
			o.l.same(record.path) == unchanged {
			o.file(ctx, record, func(b []byte) { eachRecord(b, path.Dir(d.path), fn) })
		}
	}
	for _, c := range found.conda {
		if o.l.same(c.path) == unchanged {
			o.conda(ctx, c, fn)
		}
	}
	dir := o.l.tree.lookup(dpkgLists)
	for _, e := range children(dir) {
		if at := dpkgLists + "/" + e.Name; path.Ext(e.Name) == ".list" && isFile(e.Node) && o.l.same(at) == unchanged {
			o.file(ctx, place{at, e.Node}, func(b []byte) { eachLine(b, func(l []byte) { fn(o.real(l)) }) })
		}
	}
}

func (o *owner) file(ctx context.Context, at place, fn func(b []byte)) {
	b, err := o.l.whole(ctx, at)
	if err != nil {
		o.l.trouble(at.path, err)
		return
	}
	fn(b)
}

func (o *owner) conda(ctx context.Context, at place, fn func(file []byte)) {
	prefix := path.Dir(path.Dir(at.path)) + "/"
	files, ok := o.l.files[at.path]
	if !ok {
		o.file(ctx, at, func(b []byte) {
			if o.mayList(b, prefix) {
				_, files, _ = parseConda(b) // what does not parse is trouble already
			}
		})
	}
	var buf []byte
	for _, f := range files {
		buf = append(append(buf[:0], prefix...), f...)
		fn(buf)
	}
}

// mayList reports whether a list may hold a file that is left. It is many times quicker than to parse it, while few are
// left.
func (o *owner) mayList(b []byte, prefix string) bool {
	const few = 64
	if len(o.left) > few {
		return true
	}
	for at := range o.left {
		if name, below := strings.CutPrefix(at, prefix); below && bytes.Contains(b, []byte(name)) {
			return true
		}
	}
	return false
}

// aliases returns the directories of the root that are links to others, as "/lib" is to "/usr/lib".
func aliases(root *squashfs.Node) map[string]string {
	out := map[string]string{}
	for _, e := range children(root) {
		if e.Node.Kind == squashfs.Symlink {
			out[e.Name] = path.Join("/", e.Node.Target)
		}
	}
	return out
}

// real returns the path at which the tree has what a list names.
func (o *owner) real(l []byte) []byte {
	if len(l) < 2 || l[0] != '/' {
		return l
	}
	end := 1
	for end < len(l) && l[end] != '/' {
		end++
	}
	if to, ok := o.alias[string(l[1:end])]; ok {
		return append([]byte(to), l[end:]...)
	}
	return l
}

// report puts what is left into the inventory.
func (o *owner) report(altered []string) {
	files := make([]File, 0, len(o.left))
	for at, c := range o.left {
		files = append(files, File{at, c.size})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	out := &o.l.out.Outside
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Path
		out.Bytes = addBytes(out.Bytes, f.Bytes)
	}
	out.Listing, o.l.out.Altered = listing(names), listing(altered)
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, f := range files[:min(len(files), maxLargest)] {
		out.Largest = append(out.Largest, File{text(f.Path), f.Bytes})
	}
}

func listing(names []string) Listing {
	l := Listing{Files: len(names)}
	for _, n := range names[:min(len(names), maxFirst)] {
		l.First = append(l.First, text(n))
	}
	return l
}

// addBytes adds sizes that a hostile image may have made up.
func addBytes(a, b int64) int64 {
	if a > 1<<62-b {
		return 1 << 62
	}
	return a + b
}
