package changeset

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

const opaqueMark = tree.OverlayPrefix + "opaque"

// Where the first of a file's names lies is kept in memory until the end, which is about so much for one, and at most
// so much for all.
const (
	linkMemory = 64
	mostLinks  = 256 << 20
)

// planter puts entries into an upper directory, which may hold earlier changes: these lie over them, so that both
// together are one. Names are single ones, made in directories that it has open: none leads elsewhere, and nobody else
// changes the tree meanwhile.
type planter struct {
	root   *os.File
	stage  *os.File
	owner  *Owner
	image  *Image            // nil: nothing is known of it
	links  map[uint64]string // where the first name of a file lies, from the root
	linked int               // bytes of memory that they take, about
	levels []level
	tree   int  // entries so far
	filled bool // there were earlier changes
}

// level is a directory that is being filled. It gets its attributes when it is left, as filling it changes its times.
type level struct {
	dir   *os.File
	path  string // "": the root
	entry entry
	last  string // the name that came last in it
}

func (p *planter) close() {
	for _, l := range p.levels {
		_ = l.dir.Close() // after an error
	}
	p.levels = nil
	_ = p.root.Close()
}

// complete says whether the whole tree is there.
func (p *planter) complete() bool { return p.tree > 0 && len(p.levels) == 0 }

// plant makes an entry.
func (p *planter) plant(e entry) error {
	p.tree++
	if p.tree == 1 {
		return p.top(e)
	}
	if len(p.levels) == 0 {
		return damaged("an entry outside of the tree")
	}
	l := &p.levels[len(p.levels)-1]
	if !isName(e.name) || e.name <= l.last {
		return damaged("an entry of the name %.60q", e.name)
	}
	l.last = e.name
	at := tree.Join(l.path, e.name)
	if len(at) > tree.MaxPath {
		return damaged("a path of %d bytes", len(at))
	}
	if err := p.allowed(&e, at); err != nil {
		return err
	}
	if l.entry.opaque && e.isWhiteout() {
		return nil // nothing is below that it could hide, and it would be seen
	}
	if err := p.make(l.dir, at, e); err != nil {
		if errs.KindOf(err) != errs.Internal {
			return err
		}
		return fmt.Errorf("write /%s: %w", at, full(err))
	}
	return nil
}

func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// top is the root's entry. Its directory is there.
func (p *planter) top(e entry) error {
	if e.name != "" || e.mode&unix.S_IFMT != unix.S_IFDIR {
		return damaged("a tree without a root")
	}
	if err := p.allowed(&e, ""); err != nil {
		return err
	}
	dir, err := tree.Open(p.root, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	e.opaque = false // overlays always merge the root
	return p.enter(dir, "", e, true)
}

// allowed takes from an entry what it may not have.
func (p *planter) allowed(e *entry, at string) error {
	keep := e.xattrs[:0]
	for _, x := range e.xattrs {
		namespace, rest, found := strings.Cut(x.Name, ".")
		switch {
		case !found || rest == "" || strings.ContainsRune(x.Name, 0) || strings.HasPrefix(x.Name, tree.OverlayPrefix):
			return damaged("/%s has the attribute %.60q", at, x.Name)
		case p.owner == nil || namespace == "user" || namespace == "system":
			keep = append(keep, x)
		}
	}
	e.xattrs = keep
	if p.owner != nil {
		e.uid, e.gid = p.owner.UID, p.owner.GID
	}
	if e.isDevice() {
		*e = standIn(e.name)
	}
	return nil
}

// isDevice says whether an entry is a device, or a further name of one, which comes without its number.
func (e *entry) isDevice() bool {
	kind := e.mode & unix.S_IFMT
	return kind == unix.S_IFBLK || kind == unix.S_IFCHR && (e.rdev != 0 || e.link != 0)
}

// standIn is what any device becomes: a /dev/null that nobody may open. So a freeze sees that there was one, and
// nothing of this host can be reached by it.
func standIn(name string) entry { return entry{name: name, mode: unix.S_IFCHR, rdev: unix.Mkdev(1, 3)} }

// make puts an entry in the place of what has its name.
func (p *planter) make(dir *os.File, at string, e entry) error {
	if e.mode&unix.S_IFMT == unix.S_IFDIR {
		return p.folder(dir, at, e)
	}
	if err := clear(dir, e.name); err != nil {
		return err
	}
	if e.isWhiteout() && p.filled && p.image != nil {
		if hides, err := p.image.Has(at); err != nil || !hides {
			return err
		}
	}
	fd := int(dir.Fd())
	if first, known := p.links[e.link]; known && e.link != 0 {
		return unix.Linkat(int(p.root.Fd()), first, fd, e.name, 0)
	}
	if e.link != 0 {
		if p.linked += len(at) + linkMemory; p.linked > mostLinks {
			return errs.New(
				errs.Invalid, "the session's changes have too many files with several names: %d", len(p.links),
			).With("remove what is not needed and freeze again")
		}
		p.links[e.link] = at
	}
	var err error
	switch kind := e.mode & unix.S_IFMT; kind {
	case unix.S_IFREG:
		err = p.file(dir, e)
	case unix.S_IFLNK:
		if e.target == "" || strings.ContainsRune(e.target, 0) {
			return damaged("/%s is a link to nothing", at)
		}
		err = unix.Symlinkat(e.target, fd, e.name)
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		err = unix.Mknodat(fd, e.name, kind|0o600, int(e.rdev))
	default:
		return damaged("/%s is of no kind", at)
	}
	if err != nil || e.isWhiteout() {
		return err
	}
	a := e.attributes()
	return a.Apply(tree.Under(dir, e.name))
}

// clear removes what has a name.
func clear(dir *os.File, name string) error {
	if _, err := tree.StatAt(dir, name); err != nil {
		return absent(err)
	}
	return os.RemoveAll(tree.Under(dir, name))
}

func absent(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// file gives a content its name.
func (p *planter) file(dir *os.File, e entry) error {
	if e.content == 0 {
		fd, err := unix.Openat(
			int(dir.Fd()), e.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600,
		)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	err := unix.Renameat(int(p.stage.Fd()), contentName(e.content), int(dir.Fd()), e.name)
	if errors.Is(err, unix.ENOENT) {
		return damaged("a content that did not come, or came for another file")
	}
	return err
}

func (e *entry) attributes() tree.Attr {
	t := unix.Timespec{Sec: e.sec, Nsec: int64(e.nsec)}
	return tree.Attr{Stat: unix.Stat_t{Mode: e.mode, Uid: e.uid, Gid: e.gid, Atim: t, Mtim: t}, Xattrs: e.xattrs}
}

// folder enters a directory. It merges with one that is there; where something else was, which hid what the image has,
// it hides that too.
func (p *planter) folder(dir *os.File, at string, e entry) error {
	st, err := tree.StatAt(dir, e.name)
	there := err == nil
	if err := absent(err); err != nil {
		return err
	}
	merge := there && tree.IsDir(&st) && !e.opaque
	if there && !merge {
		e.opaque = true
		if err := clear(dir, e.name); err != nil {
			return err
		}
	}
	if !merge {
		if err := unix.Mkdirat(int(dir.Fd()), e.name, 0o700); err != nil {
			return err
		}
	}
	sub, err := tree.Open(dir, e.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	return p.enter(sub, at, e, merge)
}

// enter begins to fill an open directory.
func (p *planter) enter(dir *os.File, at string, e entry, merge bool) error {
	p.levels = append(p.levels, level{dir: dir, path: at, entry: e})
	l := &p.levels[len(p.levels)-1]
	if merge {
		if err := bare(dir); err != nil {
			return err
		}
	}
	if p.owner != nil {
		if err := p.keepOwner(l, merge && (at != "" || p.filled)); err != nil {
			return err
		}
	}
	if !e.opaque {
		return nil
	}
	return unix.Fsetxattr(int(dir.Fd()), opaqueMark, []byte("y"), 0)
}

// bare takes all attributes but the overlay's mark from a directory: it gets its new ones when it is left.
func bare(dir *os.File) error {
	names, err := tree.XattrNames(tree.FDPath(int(dir.Fd())) + "/.")
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == opaqueMark || strings.HasPrefix(name, "security.") { // the host's label
			continue
		}
		if err := unix.Fremovexattr(int(dir.Fd()), name); err != nil {
			return fmt.Errorf("remove xattr %s: %w", name, err)
		}
	}
	return nil
}

// keepOwner gives a directory that the image or an earlier change has its owner again.
func (p *planter) keepOwner(l *level, earlier bool) error {
	if earlier {
		st, err := tree.StatFile(l.dir)
		l.entry.uid, l.entry.gid = st.Uid, st.Gid
		return err
	}
	if l.entry.opaque || p.image == nil {
		return nil
	}
	o, found, err := p.image.Directory(l.path)
	if err == nil && found {
		l.entry.uid, l.entry.gid = o.UID, o.GID
	}
	return err
}

// layered tells of an image whose layers are directories. That a directory above a path may be opaque in a layer does
// not matter: it says too often that there is something.
func layered(layers []string) *Image {
	return &Image{
		Has: func(at string) (bool, error) {
			st, err := inLayers(layers, at)
			return st.Mode != 0 && !tree.IsWhiteout(&st), err
		},
		Directory: func(at string) (Owner, bool, error) {
			st, err := inLayers(layers, at)
			return Owner{UID: st.Uid, GID: st.Gid}, err == nil && tree.IsDir(&st), err
		},
	}
}

// inLayers looks at what the topmost layer that has a path has there; zero: none has, or something above it hides what
// is below.
func inLayers(layers []string, at string) (unix.Stat_t, error) {
	for _, layer := range layers {
		st, found, err := lookup(layer, at)
		if err != nil || found {
			return st, err
		}
	}
	return unix.Stat_t{}, nil
}

// lookup finds a path in a layer.
func lookup(layer, at string) (st unix.Stat_t, found bool, err error) {
	root, err := tree.OpenDir(layer)
	if err != nil {
		return st, false, err
	}
	defer root.Close()
	f, err := tree.Open(root, path.Join(".", at), unix.O_PATH|unix.O_NOFOLLOW)
	switch {
	// What lies above it is no directory here, and hides it in all below.
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return st, true, nil
	case errors.Is(err, unix.ENOENT):
		return st, false, nil
	case err != nil:
		return st, false, err
	}
	defer f.Close()
	st, err = tree.StatFile(f)
	return st, true, err
}

// up leaves a directory.
func (p *planter) up() error {
	if len(p.levels) == 0 {
		return damaged("it leaves a directory that it never entered")
	}
	l := p.levels[len(p.levels)-1]
	p.levels = p.levels[:len(p.levels)-1]
	a := l.entry.attributes()
	err := errors.Join(a.Apply(tree.FDPath(int(l.dir.Fd()))+"/."), l.dir.Close())
	if err != nil {
		return fmt.Errorf("write /%s: %w", l.path, full(err))
	}
	return nil
}
