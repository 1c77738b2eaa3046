package mount

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"slipway/internal/xrd"
)

// view is one way in which a session sees an element.
type view struct {
	xrd.Element
	cached bool
}

func (v view) name() string {
	if v.cached {
		return v.Name + xrd.CachedSuffix
	}
	return v.Name
}

func (v view) path() string { return path.Join(xrd.Root, v.name()) }

// readOnly reports whether nothing may be written by a view. It must be said to xrootdfs: that a container's mount is
// read-only does not hold for what is mounted in it later, and through a cache directories could be made and removed at
// the origin.
func (v view) readOnly() bool { return v.cached || !v.Write }

// prefix begins the names of a view's mounts.
func (v view) prefix() string { return "slipway-" + v.name() + "-" }

// views are those that a session has.
func (m *Mounter) views() []view {
	var out []view
	for _, e := range m.cfg.Storage.Elements() {
		if e.Mount {
			out = append(out, view{e, false})
		}
		if e.Mount && e.Cache != "" {
			out = append(out, view{e, true})
		}
	}
	return out
}

// written are those of them that can be written to.
func (m *Mounter) written() []view { return slices.DeleteFunc(m.views(), view.readOnly) }

// server is where a view's data comes from now.
func (m *Mounter) server(v view) string {
	if v.cached && m.cfg.Storage.Cache(v.Element).Up {
		return v.Cache
	}
	return v.Origin
}

// fsname names a mount by all that it is made of: one of that name need not be made anew.
func (m *Mounter) fsname(v view, p Papers) string {
	sum := sha256.New()
	for _, part := range []string{m.server(v), v.Path, p.Token.Reveal(), p.Proxy.Reveal(), m.cfg.Trust} {
		sum.Write([]byte(part + "\x00"))
	}
	return v.prefix() + hex.EncodeToString(sum.Sum(nil)[:6])
}

// readme is what a session finds beside its storage.
func (m *Mounter) readme() string {
	var b strings.Builder
	b.WriteString("Your storage, reached with your own credentials. Nothing is kept here besides.\n\n")
	for _, v := range m.views() {
		switch {
		case v.cached:
			b.WriteString(v.path() + "  the same through the site's cache: faster for what is read often. It cannot be written to\n" +
				"    (\"Read-only file system\": write to " + view{v.Element, false}.path() +
				"), and what has changed since it was first read is not seen.\n")
		case v.Write:
			b.WriteString(v.path() + "  " + v.Origin + "/" + v.Path + ", to read and write as far as you may.\n")
		default:
			b.WriteString(v.path() + "  " + v.Origin + "/" + v.Path + ", to read.\n")
		}
	}
	b.WriteString("\nPrograms that speak XRootD are faster without these directories: `slipway data url ELEMENT:PATH` gives the URL.\n")
	return b.String()
}
