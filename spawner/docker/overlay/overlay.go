// Package overlay finds the directories of a mounted overlay in the host's tables of mounts.
//
// Promises: what it returns are whole paths of directories that exist; an overlay that is not made of directories alone is
// an error of kind Missing. The package changes nothing.
package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/mounts"
)

// Stack is where a tree lies on this host: the directory of the changes over those of the image, topmost first.
type Stack struct {
	Upper  string
	Layers []string
}

// Mount is a mounted overlay as a file /proc/<pid>/mountinfo tells of it.
type Mount struct {
	target string // where it is mounted
	upper  string // empty: it is read-only
	lowers []string
	alien  string // an option by which lower directories do not hold all; empty: none
}

// overlayOf finds the mounted overlay whose target has a directory of the given name on its way: engines mount a
// container's tree at a path that bears its ID. Of two the later one counts, for it is on top.
//
// It is for the files of processes that are root's, such as /proc/self/mountinfo. In a container's own view a user may
// have mounted anything.
func overlayOf(mountinfo, name string) (o Mount, found bool) {
	for m := range mounts.Mounts(mountinfo) {
		one, ok := asOverlay(m)
		if ok && slices.Contains(strings.Split(one.target, "/"), name) {
			o, found = one, true
		}
	}
	return o, found
}

// Find looks into the host's tables of mounts: this process's own, and that of the first one, for a service may
// have its own.
func Find(container string) (Mount, bool) {
	for _, table := range []string{"/proc/self/mountinfo", "/proc/1/mountinfo"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		if o, found := overlayOf(string(text), container); found {
			return o, true
		}
	}
	return Mount{}, false
}

// asOverlay reads the options of a mounted overlay: lowerdir=/a:/b,upperdir=/c,workdir=/d.
func asOverlay(m mounts.Mount) (Mount, bool) {
	if m.Type != "overlay" {
		return Mount{}, false
	}
	o := Mount{target: m.Point}
	for _, option := range m.Options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "upperdir":
			o.upper = value
		case "lowerdir":
			o.lowers = append(o.lowers, splitLowers(value)...)
		case "lowerdir+":
			o.lowers = append(o.lowers, value)
		case "datadir+", "userxattr":
			o.alien = key
		}
	}
	return o, true
}

// splitLowers takes the overlay's own list of lower directories apart: a backslash takes a character for itself. Behind
// two colons there would be data that no name leads to; they give an empty part.
func splitLowers(list string) []string {
	var all []string
	var part strings.Builder
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && i+1 < len(list):
			i++
			part.WriteByte(list[i])
		case c == ':':
			all = append(all, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(all, part.String())
}

// Resolve turns an overlay's directories into whole paths without links. Relative ones are where they are found:
// engines mount from within the directory that holds all of theirs when the options would be too long, and that is one
// in which the upper one lies.
func (o Mount) Resolve() (Stack, error) {
	if o.alien != "" || o.upper == "" || len(o.lowers) == 0 || slices.Contains(o.lowers, "") {
		return Stack{}, errs.New(errs.Missing, "the overlay at %s is not made of directories alone", o.target)
	}
	var all []string
	for _, dir := range append([]string{o.upper}, o.lowers...) {
		whole, err := o.whole(dir)
		if err != nil {
			return Stack{}, err
		}
		all = append(all, whole)
	}
	return Stack{Upper: all[0], Layers: all[1:]}, nil
}

// rootsAbove is how far above an upper directory those lie that an engine mounts from: snapshots/7/fs,
// overlay2/<id>/diff.
const rootsAbove = 3

func (o Mount) whole(dir string) (string, error) {
	candidates := []string{dir}
	if !filepath.IsAbs(dir) {
		candidates = nil
		for root, n := o.upper, 0; filepath.IsAbs(root) && n < rootsAbove; n++ {
			root = filepath.Dir(root)
			candidates = append(candidates, filepath.Join(root, dir))
		}
	}
	for _, c := range candidates {
		real, err := filepath.EvalSymlinks(c)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			return real, nil
		}
	}
	return "", errs.New(errs.Missing, "the directory %s of the overlay at %s cannot be seen", dir, o.target)
}
