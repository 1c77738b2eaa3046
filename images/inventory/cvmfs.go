package inventory

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway/images/squashfs"
)

// Repository is a CVMFS repository to which the tree leads: where it is not mounted, what leads there is broken.
type Repository struct {
	Name    string `json:"name"` // "sft.cern.ch"
	Listing        // what leads there
}

var cvmfsPath = regexp.MustCompile(`(?:^|[^A-Za-z0-9._-])/cvmfs/([a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+)`)

// leads notes a link into CVMFS, or a small file that may name a path there: one that extends Python's path, sets up a
// shell, says which interpreter a virtual environment stands on, or is a program's script.
func (f *finder) leads(at string, e squashfs.Entry) {
	switch {
	case e.Node.Kind == squashfs.Symlink:
		if m := cvmfsPath.FindStringSubmatch(e.Node.Target); m != nil {
			f.few(&f.out.links, at, e)
		}
	case e.Node.Kind == squashfs.File && namesPaths(at, e):
		f.add(&f.out.setups, at, e)
	}
}

// scriptSize is the most that a script has whose first line is looked at.
const scriptSize = 64 << 10

func namesPaths(at string, e squashfs.Entry) bool {
	n := size(e.Node)
	switch path.Ext(e.Name) {
	case ".pth", ".egg-link":
		return n <= headLimit
	}
	switch {
	case at == "/etc/profile.d", at == "/etc/ld.so.conf.d", strings.HasSuffix(at, "/etc/conda/activate.d"):
		return n <= headLimit
	case e.Name == "pyvenv.cfg", e.Name == "kernel.json", at == "/etc" && (e.Name == "environment" ||
		e.Name == "profile" || e.Name == "ld.so.conf"):
		return n <= headLimit
	}
	return path.Base(at) == "bin" && e.Node.Mode&0o111 != 0 && n > 0 && n <= scriptSize
}

// The bounds of what is noted of repositories: there are some hundreds in the world.
const (
	maxRepositories = 1000
	maxRepository   = 100 // bytes of a name
	maxNamed        = 50  // by one file
)

// cvmfs sums up which repositories the tree leads to. Of programs only the first line counts: what they do later is not
// known.
func (l *looker) cvmfs(ctx context.Context, found finds) {
	where := map[string][]string{}
	note := func(name string, p place) {
		if _, known := where[name]; known || len(where) < maxRepositories && len(name) <= maxRepository {
			where[name] = append(where[name], text(p.path))
		}
	}
	for _, p := range found.links {
		note(cvmfsPath.FindStringSubmatch(p.node.Target)[1], p)
	}
	for _, p := range found.setups {
		for _, name := range l.named(ctx, p) {
			note(name, p)
		}
	}
	for name, files := range where {
		slices.Sort(files)
		l.out.CVMFS = append(
			l.out.CVMFS, Repository{name, Listing{Files: len(files), First: files[:min(len(files), maxFirst)]}},
		)
	}
	slices.SortFunc(l.out.CVMFS, func(a, b Repository) int { return strings.Compare(a.Name, b.Name) })
	for i := range l.out.CVMFS {
		r := &l.out.CVMFS[i]
		for at, file := range r.First {
			if l.most -= len(file); l.most < 0 {
				r.First = r.First[:at]
				break
			}
		}
	}
}

// named returns the repositories whose paths a file names.
func (l *looker) named(ctx context.Context, p place) []string {
	if l.same(p.path) {
		return l.base.Inventory.leading(text(p.path))
	}
	b, err := l.read(ctx, p, headLimit)
	if err != nil {
		l.trouble(p.path, err)
		return nil
	}
	if path.Base(path.Dir(p.path)) == "bin" {
		if !bytes.HasPrefix(b, []byte("#!")) {
			return nil
		}
		b, _, _ = bytes.Cut(b, []byte("\n"))
	}
	var out []string
	for _, m := range cvmfsPath.FindAllSubmatch(b, -1) {
		if name := string(m[1]); len(out) < maxNamed && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// leading returns the repositories to which a file leads.
func (i Inventory) leading(file string) []string {
	var out []string
	for _, r := range i.CVMFS {
		if _, there := slices.BinarySearch(r.First, file); there {
			out = append(out, r.Name)
		}
	}
	return out
}
