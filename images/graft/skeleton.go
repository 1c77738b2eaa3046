package graft

import (
	"context"
	"strings"

	"slipway/images/squashfs"
)

// generatedAt is the time of whatever stood in no tree before: 2020-01-01.
const generatedAt = 1577836800

// emptiedAt is the time of a directory that the image lacks and that travels without what is in it. It is not
// generatedAt: such a directory is the session's, and comes back when one is started from the environment.
const emptiedAt = generatedAt + 1

// skeletonEntry is something that Apptainer mounts on, or that links into the runtime directory.
type skeletonEntry struct {
	path string
	node squashfs.Node
}

func skeleton() []skeletonEntry {
	dir := func(path string, mode uint16) skeletonEntry {
		return skeletonEntry{path, squashfs.Node{Kind: squashfs.Dir, Mode: mode, MTime: generatedAt}}
	}
	file := func(path string) skeletonEntry {
		return skeletonEntry{path, squashfs.Node{Kind: squashfs.File, Mode: 0o644, MTime: generatedAt}}
	}
	link := func(path, target string) skeletonEntry {
		return skeletonEntry{
			path, squashfs.Node{Kind: squashfs.Symlink, Mode: 0o777, MTime: generatedAt, Target: target},
		}
	}
	return []skeletonEntry{
		dir("dev", 0o755), dir("etc", 0o755), dir("home", 0o755), dir("proc", 0o555), dir("root", 0o700),
		dir("run", 0o755),
		dir("sys", 0o555), dir("tmp", 0o1777), dir("var", 0o755), dir("var/tmp", 0o1777), file("etc/hosts"),
		file("etc/resolv.conf"),
		link("environment", runtimeDir+"/env/90-environment.sh"), link("singularity", runtimeDir+"/runscript"),
	}
}

// addSkeleton returns root with what a runtime needs and root lacks, and the paths of that. The base's entry comes
// back, a directory empty: what the user deleted in it stays deleted.
func addSkeleton(root, base *squashfs.Node) (*squashfs.Node, []string) {
	var added []string
	for _, e := range skeleton() {
		dir, name := split(e.path)
		parent := lookup(root, dir)
		if parent == nil || parent.Kind != squashfs.Dir || parent.Child(name) != nil {
			continue
		}
		n := lookup(base, e.path)
		if n == nil || n.Kind != e.node.Kind {
			n = &e.node
		}
		if n.Kind == squashfs.Dir {
			n = n.With(nil)
		}
		root = graftAt(root, e.path, n)
		added = append(added, "/"+e.path)
	}
	return root, added
}

// addRuntime returns root with the runtime directory.
func (g *grafter) addRuntime(ctx context.Context, root *squashfs.Node) (*squashfs.Node, error) {
	dir := func() *squashfs.Node { return &squashfs.Node{Kind: squashfs.Dir, Mode: 0o755, MTime: generatedAt} }
	root = graftAt(root, runtimeDir, dir())
	for _, f := range g.cfg.Runtime {
		n := &squashfs.Node{Kind: squashfs.File, Mode: f.Mode, MTime: generatedAt}
		if len(f.Content) > 0 {
			var err error
			if n.Data, err = g.writer.Put(ctx, memory(f.Content), int64(len(f.Content)), nil); err != nil {
				return nil, err
			}
		}
		path := runtimeDir + "/" + f.Path
		if above, _ := split(path); lookup(root, above) == nil {
			root = graftAt(root, above, dir())
		}
		root = graftAt(root, path, n)
	}
	g.result.Added = append(g.result.Added, "/"+runtimeDir)
	return root, nil
}

// split takes the last name off a path.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// lookup follows no links; "" is root itself.
func lookup(root *squashfs.Node, path string) *squashfs.Node {
	n := root
	for path != "" && n != nil {
		var name string
		name, path, _ = strings.Cut(path, "/")
		n = n.Child(name)
	}
	return n
}

// graftAt returns a tree with n at path, whose parents exist, and copies nothing but those.
func graftAt(root *squashfs.Node, path string, n *squashfs.Node) *squashfs.Node {
	name, rest, more := strings.Cut(path, "/")
	if more {
		n = graftAt(root.Child(name), rest, n)
	}
	return root.With(merge(root.Children, []squashfs.Entry{{Name: name, Node: n}}, nil))
}
