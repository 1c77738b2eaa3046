// Package layer reads and writes the archives in which a container engine gives and takes trees: Unpacking writes an
// exported tree below a directory, or what of it differs from a base; Write makes an overlay's upper directory a layer
// of an image, and WriteImage an image of it.
//
// Promises: an archive is not trusted, and nothing is written outside of its directory; the same directory gives the same
// bytes, and so the same digest. The package must not ask an engine for anything.
package layer

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// Unpacking writes an archive of a whole tree, as an engine exports it, below an empty directory of this process's own.
// Over a base it writes only what differs from it, as an overlay's upper directory: contents are compared to the last
// byte, and what is missing becomes a whiteout.
//
// What the archive cannot tell is lost: extended attributes other than those that engines export (capabilities),
// fractions of seconds, sockets. What the engine itself puts into every container is left out on both sides.
//
// An archive is not trusted. An entry lies below a directory that this unpacking has met as one, or it is refused; so
// no link is ever followed, and nothing is written elsewhere.
type Unpacking struct {
	Dir  string    // where it is written
	Base string    // what is there already; empty: nothing
	Time time.Time // of the directories that the engine changes in every container

	dirs map[string]*tar.Header // directories of the archive by path; "." is the root
	seen map[string]bool        // all its paths
	made map[string]bool        // the paths that are below dir
	Told func(bytes int64)      // how much of the archive was read; may be nil
	read int64
}

// Unpack writes the whole archive.
func (u *Unpacking) Unpack(r io.Reader) error {
	u.dirs = map[string]*tar.Header{".": {Typeflag: tar.TypeDir, Mode: 0o755, ModTime: u.Time}}
	u.seen, u.made = map[string]bool{".": true}, map[string]bool{".": true}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read the engine's archive: %w", err)
		}
		if err := u.entry(h, t); err != nil {
			return err
		}
	}
	if err := u.delete(); err != nil {
		return err
	}
	return u.times()
}

func (u *Unpacking) entry(h *tar.Header, r io.Reader) error {
	name, err := u.place(h.Name)
	if err != nil || name == "." || OfEngine(name) {
		if name == "." && h.Typeflag == tar.TypeDir {
			u.dirs["."] = h
		}
		return err
	}
	u.seen[name] = true
	if h.Typeflag == tar.TypeDir {
		if IsBusy(name) {
			h.ModTime = u.Time
		}
		u.dirs[name] = h
	}
	if err := u.put(name, h, r); err != nil {
		return fmt.Errorf("unpack %q: %w", name, err)
	}
	if u.read += h.Size; u.Told != nil {
		u.Told(u.read)
	}
	return nil
}

// place returns where an entry belongs: below a directory that is known to be one, and nothing else of the name.
func (u *Unpacking) place(raw string) (string, error) {
	name := path.Clean(strings.TrimSuffix(raw, "/"))
	if raw == "" || path.IsAbs(raw) || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(raw, 0) {
		return "", hostile(raw)
	}
	if OfEngine(name) {
		return name, nil
	}
	if name != "." && (u.seen[name] || u.dirs[path.Dir(name)] == nil) {
		return "", hostile(raw)
	}
	return name, nil
}

func hostile(name string) error {
	return errs.New(errs.Unavailable, "the engine's archive has %q, which no tree has at that place", name)
}

// OfEngine are the paths that an engine fills in every container by itself.
func OfEngine(name string) bool {
	switch name {
	case ".dockerenv", "dev/console", "dev/pts", "dev/shm", "etc/hosts", "etc/hostname", "etc/mtab", "etc/resolv.conf":
		return true
	}
	return strings.HasPrefix(name, "dev/pts/") || strings.HasPrefix(name, "dev/shm/")
}

// IsBusy reports the directories that get a new time whenever an engine does so.
func IsBusy(name string) bool {
	return name == "." || name == "dev" || name == "etc" || name == "proc" || name == "sys"
}

// put makes one entry, unless the base has the same.
func (u *Unpacking) put(name string, h *tar.Header, r io.Reader) error {
	// no engine writes one, and a short archive could fill a disk
	if _, sparse := h.PAXRecords["GNU.sparse.major"]; sparse {
		return hostile(name)
	}
	switch h.Typeflag {
	case tar.TypeLink:
		return u.link(name, h)
	case tar.TypeReg:
		return u.file(name, h, r)
	case tar.TypeDir, tar.TypeSymlink, tar.TypeFifo, tar.TypeChar, tar.TypeBlock:
		if u.Base != "" && u.alike(name, h) {
			return nil
		}
		return u.make(name, h)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return errs.New(errs.Unavailable, "the engine's archive has an entry of type %q", h.Typeflag)
	}
}

// link makes a hard link, unless the base has it and its target is the base's. The base's file comes along where it
// gets a new name.
func (u *Unpacking) link(name string, h *tar.Header) error {
	target := path.Clean(h.Linkname)
	if !u.seen[target] || target == name || u.dirs[target] != nil {
		return hostile(h.Linkname)
	}
	if !u.made[target] {
		if u.sameFile(name, target) {
			return nil
		}
		if err := u.adopt(target); err != nil {
			return err
		}
	}
	if err := u.parents(name); err != nil {
		return err
	}
	u.made[name] = true
	return os.Link(u.at(target), u.at(name))
}

func (u *Unpacking) sameFile(a, b string) bool {
	one, err := os.Lstat(filepath.Join(u.Base, a))
	if err != nil {
		return false
	}
	other, err := os.Lstat(filepath.Join(u.Base, b))
	return err == nil && os.SameFile(one, other)
}

// adopt copies a file of the base.
func (u *Unpacking) adopt(name string) error {
	from := filepath.Join(u.Base, name)
	h, err := HeaderOf(from)
	if err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return u.make(name, h)
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return u.write(name, h, f)
}

// make makes what has no content.
func (u *Unpacking) make(name string, h *tar.Header) error {
	if err := u.parents(name); err != nil {
		return err
	}
	device := unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		err = os.Mkdir(u.at(name), 0o700)
	case tar.TypeSymlink:
		err = os.Symlink(h.Linkname, u.at(name))
	case tar.TypeFifo:
		err = unix.Mknod(u.at(name), unix.S_IFIFO|0o600, 0)
	case tar.TypeBlock:
		err = unix.Mknod(u.at(name), unix.S_IFBLK|0o600, int(device))
	case tar.TypeChar:
		if device == 0 { // it would be a whiteout
			return hostile(name)
		}
		err = unix.Mknod(u.at(name), unix.S_IFCHR|0o600, int(device))
	}
	if err != nil {
		return err
	}
	u.made[name] = true
	return u.attributes(name, h)
}

// parents makes the directories on the way to a path that are the base's so far, as the archive has them.
func (u *Unpacking) parents(name string) error {
	dir := path.Dir(name)
	if u.made[dir] {
		return nil
	}
	return u.make(dir, u.dirs[dir])
}

// alike reports whether the base has an entry with the same attributes at a path; the content of files is not looked
// at.
func (u *Unpacking) alike(name string, h *tar.Header) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) { // a link there would lead out of the base
		if info, err := os.Lstat(filepath.Join(u.Base, dir)); err != nil || !info.IsDir() {
			return false
		}
	}
	has, err := HeaderOf(filepath.Join(u.Base, name))
	return err == nil && has.Typeflag == h.Typeflag && has.Mode&0o7777 == h.Mode&0o7777 && has.Uid == h.Uid &&
		has.Gid == h.Gid &&
		has.Linkname == h.Linkname && has.Size == h.Size && has.Devmajor == h.Devmajor && has.Devminor == h.Devminor &&
		has.ModTime.Unix() == h.ModTime.Unix() && maps.Equal(attributesOf(has), attributesOf(h))
}

// delete writes a whiteout for all that the base has and the archive has not.
func (u *Unpacking) delete() error {
	if u.Base == "" {
		return nil
	}
	return filepath.WalkDir(u.Base, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(u.Base, at)
		if err != nil {
			return err
		}
		switch {
		case u.dirs[name] != nil:
			return nil
		case !u.seen[name]:
			if err := u.whiteout(name); err != nil {
				return err
			}
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

func (u *Unpacking) whiteout(name string) error {
	if err := u.parents(name); err != nil {
		return err
	}
	if err := unix.Mknod(u.at(name), unix.S_IFCHR, 0); err != nil {
		return fmt.Errorf("delete %q: %w", name, err)
	}
	return nil
}

// times gives the directories theirs again, which have changed with what was made in them.
func (u *Unpacking) times() error {
	if err := u.attributes(".", u.dirs["."]); err != nil {
		return err
	}
	for name, h := range u.dirs {
		if !u.made[name] {
			continue
		}
		when := h.ModTime
		if IsBusy(name) {
			when = u.Time
		}
		if err := setTime(u.at(name), when); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unpacking) at(name string) string { return filepath.Join(u.Dir, name) }
