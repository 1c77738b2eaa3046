package inventory

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"slipway/images/squashfs"
)

// Config says what to look at.
type Config struct {
	Tree  Tree     // of the environment
	Base  *Known   // what it was grafted on; nil: nothing, and all of its files are the change
	Name  string   // of the base, for the inventory; may be empty
	Path  string   // the image's PATH; empty: the usual one
	Roots []string // where files outside packages are looked for; nil: /usr, /opt and /etc
}

// Known is a base that was looked at before. A file that lies at one place in it and in what was grafted on it has one
// content, so what the base's inventory says of such files is taken over. Another environment grafted on the same base
// is no base: its own content and that of this one lie at the same places.
type Known struct {
	Tree      Tree
	Inventory Inventory
}

// The bounds of what is read.
const (
	headLimit  = 64 << 10 // of files of which the beginning says it
	wholeLimit = 64 << 20 // of files that list files
	lookLimit  = 2 << 30  // in all
	maxTrouble = 100
	maxWords   = 16 << 20 // of all packages: some forty thousand
	// packageWords is what a package counts beside its words, and leastRead what reading a file does beside its bytes.
	packageWords = 64
	leastRead    = 2 << 10
	// Names of conda's files that are kept until they are wanted; of the others the lists are read again.
	maxKept = 4 << 20
)

// looker carries one Look.
type looker struct {
	tree  Tree
	base  *Known
	known map[string][]Package // of the base, by source
	files map[string][]string  // conda's lists of files, by source
	left  int64                // bytes that may still be read
	most  int                  // bytes that packages may take
	full  bool                 // they have taken them
	kept  int                  // names in files
	out   *Inventory
}

// Look says what is in a tree. It fails only when ctx ends: what cannot be read is the inventory's trouble.
func Look(ctx context.Context, cfg Config) (Inventory, error) {
	l := &looker{
		tree: cfg.Tree, base: cfg.Base, files: map[string][]string{}, left: lookLimit, most: maxWords,
		out: &Inventory{Base: cfg.Name},
	}
	l.remember()
	found, err := l.find(ctx)
	if err != nil {
		return Inventory{}, fmt.Errorf("look into the tree: %w", err)
	}
	l.system(ctx)
	l.packages(ctx, found)
	l.interpreters(ctx, found, cfg.Path)
	l.cuda(found.libraries)
	for _, g := range found.gits {
		l.checkout(ctx, g)
	}
	for _, k := range found.kernels {
		l.kernel(ctx, k)
	}
	l.cvmfs(ctx, found)
	l.outside(ctx, found, cfg.Roots)
	if err := ctx.Err(); err != nil {
		return Inventory{}, fmt.Errorf("look into the tree: %w", err)
	}
	l.sort()
	return *l.out, nil
}

// remember sorts the base's packages by the files that told of them.
func (l *looker) remember() {
	if l.base == nil {
		return
	}
	l.known = make(map[string][]Package, len(l.base.Inventory.Packages))
	for _, p := range l.base.Inventory.Packages {
		l.known[p.Source] = append(l.known[p.Source], p)
	}
}

// reuse takes over what the base's inventory says of a source when that file, and the others that were read with it,
// are the same.
func (l *looker) reuse(source string, others ...string) bool {
	list := l.known[text(source)]
	if len(list) == 0 || !l.same(source) {
		return false
	}
	for _, o := range others {
		if !l.same(o) {
			return false
		}
	}
	l.add(list...)
	return true
}

// same reports whether a path is one file in the base and here, or nothing in both.
func (l *looker) same(name string) bool {
	if l.base == nil {
		return false
	}
	a, b := l.base.Tree.lookup(name), l.tree.lookup(name)
	return a == nil && b == nil || sameFile(a, b)
}

// read returns the beginning of a file.
func (l *looker) read(ctx context.Context, at place, limit int64) ([]byte, error) {
	if err := l.allow(ctx, min(size(at.node), limit)); err != nil {
		return nil, err
	}
	return l.tree.head(at.node, limit)
}

// whole returns all of a file, or an error when it is beyond the bound.
func (l *looker) whole(ctx context.Context, at place) ([]byte, error) {
	if size(at.node) > wholeLimit {
		return nil, errTooLarge
	}
	return l.read(ctx, at, wholeLimit)
}

func (l *looker) allow(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.left -= max(n, leastRead); l.left < 0 {
		return errors.New("not read: the bound for one environment is reached")
	}
	return nil
}

func (l *looker) trouble(at string, err error) {
	if len(l.out.Trouble) < maxTrouble {
		l.out.Trouble = append(l.out.Trouble, line(at)+": "+err.Error())
	}
}

func (l *looker) system(ctx context.Context) {
	at, n := l.tree.resolve("/etc/os-release")
	if n == nil {
		return
	}
	b, err := l.read(ctx, place{at, n}, headLimit)
	if err != nil {
		l.trouble(at, err)
		return
	}
	l.out.System = parseOSRelease(b)
}

// add notes packages, but for those that are more than any environment has: what is found is kept, and read whenever
// somebody asks.
func (l *looker) add(list ...Package) {
	for _, p := range list {
		l.most -= packageWords
		for _, words := range []string{
			p.Name, p.Version, p.Architecture, p.Build, p.Channel, p.Installer, p.Editable, p.URL, p.Commit, p.License,
			p.Path, p.Source,
		} {
			l.most -= len(words)
		}
		switch {
		case l.most >= 0:
			l.out.Packages = append(l.out.Packages, p)
		case !l.full:
			l.full = true
			l.trouble("/", errors.New("packages are left out: there are too many, or their names are too long"))
		}
	}
}

func (l *looker) interpreters(ctx context.Context, found finds, search string) {
	for _, v := range found.venvs {
		l.venv(ctx, v)
	}
	for _, p := range found.pythons {
		l.python(ctx, p)
	}
	l.markDefault(search)
}

func (l *looker) kernel(ctx context.Context, at place) {
	b, err := l.whole(ctx, at)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	k, err := parseKernel(b)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	k.Name, k.Path = text(path.Base(path.Dir(at.path))), text(at.path)
	l.out.Kernels = append(l.out.Kernels, k)
}

func (l *looker) sort() {
	o := l.out
	slices.SortFunc(o.Packages, comparePackages)
	o.Packages = slices.Compact(o.Packages)
	slices.SortFunc(o.Python, func(a, b Interpreter) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(o.Conda, func(a, b Prefix) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(o.Git, func(a, b Checkout) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(o.Kernels, func(a, b Kernel) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(o.Trouble)
	for i := range o.Python {
		p := &o.Python[i]
		p.Path, p.Prefix = text(p.Path), text(p.Prefix)
	}
	if o.Packages == nil {
		o.Packages = []Package{}
	}
}

// isFile tells a regular file.
func isFile(n *squashfs.Node) bool { return n != nil && n.Kind == squashfs.File }
