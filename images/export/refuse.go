package export

import (
	"iter"
	"path"
	"strings"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// form is what a tree is to be written as.
type form string

const (
	overlay form = "an overlay"
	layers  form = "an OCI image"
)

const whiteoutPrefix = ".wh."

// refuse finds what a form cannot hold, so that it is said before anything is written.
func refuse(f form, changes iter.Seq[Change]) error {
	for c := range changes {
		why := unfit(f, c)
		if why != "" {
			return errs.New(errs.Conflict, "%s %s, which %s cannot hold", c.Path, why, f).
				With("remove it in a session and freeze again, or take the environment as a SIF")
		}
	}
	return nil
}

func unfit(f form, c Change) string {
	if c.Node == nil || c.What == Passed {
		return ""
	}
	device := c.Node.Kind == squashfs.CharDevice || c.Node.Kind == squashfs.BlockDevice
	switch {
	case f == overlay && device: // a stranger's environment may have one: no freeze carries any
		return "is a device, and so the host's"
	case c.Node.Kind == squashfs.CharDevice && c.Node.Rdev == 0:
		return "is the device 0:0, by which overlays mark a deletion"
	}
	if f == layers && strings.HasPrefix(path.Base(c.Path), whiteoutPrefix) {
		return "begins with " + whiteoutPrefix + ", by which layers mark a deletion"
	}
	for _, x := range xattrs(c.Node.Xattrs) {
		if strings.HasPrefix(x.Name, tree.OverlayPrefix) {
			return "carries the overlay's own xattr " + x.Name
		}
		if f == layers && strings.Contains(x.Name, "=") {
			return "carries an xattr whose name has a ="
		}
	}
	return ""
}

// tally counts what changes write.
type tally struct {
	Entries     int64
	Bytes       int64 // of contents, without holes
	SparseFiles int64
	SparseBytes int64 // in holes
}

func count(changes iter.Seq[Change]) tally {
	var t tally
	for c := range changes {
		if c.What != Passed {
			t.Entries++
		}
		if c.Node == nil || c.Node.Data == nil || c.Link != "" {
			continue
		}
		t.Bytes += max(0, int64(c.Node.Data.Size)-int64(c.Node.Data.Sparse))
		if c.Node.Data.Sparse > 0 {
			t.SparseFiles++
			t.SparseBytes += int64(c.Node.Data.Sparse)
		}
	}
	return t
}
