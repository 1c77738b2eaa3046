package inventory

import (
	"context"
	"errors"
	"path"
	"strings"

	"slipway/images/squashfs"
)

// place is a node and its path.
type place struct {
	path string
	node *squashfs.Node
}

// finds is where the parts of an inventory are to be read.
type finds struct {
	dists     []place // *.dist-info and *.egg-info, and *.egg-link, below site-packages and dist-packages
	conda     []place // conda-meta/*.json
	condaDirs []place // conda-meta
	venvs     []place // pyvenv.cfg
	pythons   []place // bin/pythonX.Y
	libraries []place // libcudart.so.*
	gits      []place // .git
	kernels   []place // kernel.json
	spack     []place // .spack/spec.json
	spackDBs  []place // .spack-db/index.json
	r         []place // DESCRIPTION
	links     []place // into CVMFS
	setups    []place // small files that may name a path in CVMFS
}

// The bounds of the lists: what has more is no environment.
const (
	maxFinds = 50_000 // metadata files of packages, of each manager
	maxFew   = 1000   // of what an environment has a handful
)

type finder struct {
	out  finds
	over bool // a list was full
}

// find walks a tree once.
func (l *looker) find(ctx context.Context) (finds, error) {
	f := &finder{}
	if err := f.dir(ctx, "", "", l.tree.Root); err != nil {
		return finds{}, err
	}
	if f.over {
		l.trouble(
			"/", errors.New("it has more packages, interpreters, checkouts, kernels or libraries than are looked at"),
		)
	}
	return f.out, nil
}

// dir looks at a directory: its path ("" is the root), the name of its parent, and itself.
func (f *finder) dir(ctx context.Context, at, parent string, n *squashfs.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := at[strings.LastIndexByte(at, '/')+1:]
	note := f.note(at, parent, name)
	for _, e := range n.Children {
		f.anywhere(at, e)
		f.leads(at, e)
		if note != nil {
			note(e)
		}
		if e.Node.Kind == squashfs.Dir && e.Name != ".git" {
			if err := f.dir(ctx, at+"/"+e.Name, name, e.Node); err != nil {
				return err
			}
		}
	}
	return nil
}

// anywhere notes what may lie in any directory.
func (f *finder) anywhere(at string, e squashfs.Entry) {
	switch {
	case e.Name == ".git":
		f.few(&f.out.gits, at, e)
	case e.Node.Kind == squashfs.Dir:
	case e.Name == "pyvenv.cfg":
		f.few(&f.out.venvs, at, e)
	case strings.HasPrefix(e.Name, "libcudart"):
		f.few(&f.out.libraries, at, e)
	}
}

// note returns what to look for in a directory by its name, nil for most.
func (f *finder) note(at, parent, name string) func(squashfs.Entry) {
	switch name {
	case "site-packages", "dist-packages":
		return func(e squashfs.Entry) {
			switch path.Ext(e.Name) {
			case ".dist-info", ".egg-info", ".egg-link":
				f.add(&f.out.dists, at, e)
			}
		}
	case "bin":
		return func(e squashfs.Entry) {
			if e.Node.Kind == squashfs.File && strings.HasPrefix(e.Name, "python") &&
				pythonProgram.MatchString(e.Name) {
				f.few(&f.out.pythons, at, e)
			}
		}
	case "conda-meta":
		f.few(&f.out.condaDirs, path.Dir(at), squashfs.Entry{Name: name})
		return func(e squashfs.Entry) {
			if path.Ext(e.Name) == ".json" {
				f.add(&f.out.conda, at, e)
			}
		}
	case ".spack":
		return f.named("spec.json", at, &f.out.spack)
	case ".spack-db":
		return f.named("index.json", at, &f.out.spackDBs)
	case "library", "site-library":
		if parent == "R" {
			return f.inside("DESCRIPTION", at, &f.out.r)
		}
	case "kernels":
		if parent == "jupyter" {
			return f.inside("kernel.json", at, &f.out.kernels)
		}
	}
	return nil
}

// named notes a file by its name.
func (f *finder) named(file, at string, list *[]place) func(squashfs.Entry) {
	return func(e squashfs.Entry) {
		if e.Name == file {
			f.add(list, at, e)
		}
	}
}

// inside notes a file in each subdirectory.
func (f *finder) inside(file, at string, list *[]place) func(squashfs.Entry) {
	return func(e squashfs.Entry) {
		if n := e.Node.Child(file); n != nil {
			f.add(list, at+"/"+e.Name, squashfs.Entry{Name: file, Node: n})
		}
	}
}

// add notes a file, one of many.
func (f *finder) add(list *[]place, at string, e squashfs.Entry) { f.bounded(list, at, e, maxFinds) }

// few notes what there are few of.
func (f *finder) few(list *[]place, at string, e squashfs.Entry) { f.bounded(list, at, e, maxFew) }

func (f *finder) bounded(list *[]place, at string, e squashfs.Entry, limit int) {
	if len(*list) == limit {
		f.over = true
		return
	}
	*list = append(*list, place{at + "/" + e.Name, e.Node})
}
