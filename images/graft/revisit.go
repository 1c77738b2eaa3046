package graft

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// revisit brings what a survey found while the source ran up to what is there in the pause. A directory whose times
// have not moved has the names that it had; of what stands there nothing but the numbers is looked at, by several
// goroutines. What is new is surveyed, and what has changed is read again. What follows from all that, the tree and its
// fingerprint, is made when the source runs on.
type revisit struct {
	g     *grafter
	found []visit

	mu     sync.Mutex
	newest time.Time // ctime
	moved  []*folder // whose names may be others
	fresh  []stale
}

// visit is some parts of a directory.
type visit struct {
	folder *folder
	parts  []*part
}

// stale is a file that is to be read.
type stale struct {
	dir   *folder
	entry *entry
}

// partsAtOnce is how many parts of a directory one goroutine looks at.
const partsAtOnce = 8

// newRevisit lists what is to be looked at in the pause; the source still runs.
func (g *grafter) newRevisit(top *folder) *revisit {
	r := &revisit{g: g}
	r.list(top)
	return r
}

func (r *revisit) list(f *folder) {
	for parts := range slices.Chunk(f.parts, partsAtOnce) {
		r.found = append(r.found, visit{f, parts})
	}
	if len(f.parts) == 0 {
		r.found = append(r.found, visit{f, nil})
	}
	for _, p := range f.parts {
		for i := range p.entries {
			e := &p.entries[i]
			if e.note = r.g.known(e); e.folder != nil {
				r.list(e.folder)
			}
		}
	}
}

// run is called in the pause. It gives how many files were read.
func (r *revisit) run(ctx context.Context) (read int, err error) {
	if err := r.lookAround(ctx); err != nil {
		return 0, err
	}
	slices.SortFunc(r.moved, func(a, b *folder) int { return cmp.Compare(a.path, b.path) })
	for _, f := range slices.Compact(r.moved) {
		if err := r.relist(ctx, f); err != nil {
			return 0, named(f.path, err)
		}
	}
	return r.store(ctx)
}

// lookAround looks at all that was found before.
func (r *revisit) lookAround(ctx context.Context) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, scouts())
	for i := range errs {
		all.Go(func() {
			w := &watcher{revisit: r}
			for errs[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(r.found) {
					break
				}
				errs[i] = w.look(ctx, r.found[at])
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.moved, r.fresh = append(r.moved, w.moved...), append(r.fresh, w.fresh...)
			if w.newest.After(r.newest) {
				r.newest = w.newest
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// watcher is one of the goroutines, with what it found.
type watcher struct {
	*revisit
	newest time.Time
	moved  []*folder
	fresh  []stale
}

// at opens a directory by its path from the root.
func (r *revisit) at(path string, flags uint64) (*os.File, error) {
	return tree.Open(r.g.root, cmp.Or(path, "."), flags|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// has notes when something was changed.
func (w *watcher) has(st *unix.Stat_t) {
	if at := time.Unix(st.Ctim.Sec, st.Ctim.Nsec); at.After(w.newest) {
		w.newest = at
	}
}

func (w *watcher) look(ctx context.Context, v visit) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir, err := w.at(v.folder.path, unix.O_PATH)
	if err != nil {
		w.moved = append(w.moved, v.folder)
		return nil // it has gone, or its parent leads elsewhere: whoever lists that finds out
	}
	defer dir.Close()
	st, err := tree.StatFile(dir)
	if err != nil {
		return named(v.folder.path, err)
	}
	if w.has(&st); v.folder.err != nil || !v.folder.ripe || !identical(&st, &v.folder.stat) {
		w.moved = append(w.moved, v.folder)
		return nil
	}
	fd := int(dir.Fd())
	for _, p := range v.parts {
		for i := range p.entries {
			if err := w.entry(v.folder, dir, fd, p, &p.entries[i]); err != nil {
				return named(p.entries[i].path, err)
			}
		}
	}
	return nil
}

// entry looks at one that a directory still has. Of a directory its own visit tells.
func (w *watcher) entry(f *folder, dir *os.File, fd int, p *part, e *entry) error {
	if e.folder != nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "lstat", Path: e.name, Err: err}
	}
	w.has(&st)
	regular := st.Mode&unix.S_IFMT == unix.S_IFREG
	if e.err == nil && e.ripe && identical(&st, &e.stat) && (!regular || st.Size == 0 || e.note != nil) {
		return nil
	}
	if e.err != nil || tree.IsDir(&st) { // it is looked at as something new
		w.moved = append(w.moved, f)
		return nil
	}
	e.stat, p.stale = st, true
	e.xattrs, e.target = nil, ""
	if e.note = w.g.known(e); e.note == nil || !e.note.plain {
		if err := w.read(dir, e); err != nil {
			return err
		}
	}
	if regular && st.Size > 0 && e.note == nil {
		w.fresh = append(w.fresh, stale{f, e})
	}
	return nil
}

func (w *watcher) read(dir *os.File, e *entry) error {
	switch e.stat.Mode & unix.S_IFMT {
	case unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		return nil
	}
	return e.attributes(dir)
}

// relist surveys a directory anew, and takes what it knows of those below that are still the same.
func (r *revisit) relist(ctx context.Context, f *folder) error {
	s := &scout{dev: r.g.dev, xattrs: true, notes: r.g.notes, open: map[*folder]bool{}} // nobody looks ahead
	s.wake.L = &s.mu
	defer s.end()
	again := s.folder(ctx, f.path, f.rules, func() (*os.File, error) { return r.at(f.path, unix.O_RDONLY) })
	err := s.visit(again)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.EXDEV) {
		f.err = err // when its parent still has it, the error is the tree's
		return nil
	}
	if err != nil {
		return err
	}
	had := map[string]*folder{}
	for _, p := range f.parts {
		for i := range p.entries {
			if e := &p.entries[i]; e.folder != nil {
				had[e.name] = e.folder
			}
		}
	}
	if err := r.adopt(s, again, had); err != nil {
		return err
	}
	f.stat, f.xattrs, f.parts, f.ripe, f.err = again.stat, again.xattrs, again.parts, again.ripe, nil
	return nil
}

// adopt goes through a directory that was listed in the pause.
func (r *revisit) adopt(s *scout, f *folder, had map[string]*folder) error {
	if err := s.visit(f); err != nil {
		return named(f.path, err)
	}
	if at := time.Unix(f.stat.Ctim.Sec, f.stat.Ctim.Nsec); at.After(r.newest) {
		r.newest = at
	}
	for _, p := range f.parts {
		entries := s.look(p)
		if p.print.newest.After(r.newest) {
			r.newest = p.print.newest
		}
		for i := range entries {
			e := &entries[i]
			switch {
			case e.err != nil:
				return named(e.path, e.err)
			case e.folder != nil && had[e.name] != nil:
				e.folder = had[e.name] // it has a visit of its own
			case e.folder != nil:
				if err := r.adopt(s, e.folder, nil); err != nil {
					return err
				}
			case e.stat.Mode&unix.S_IFMT == unix.S_IFREG && e.stat.Size > 0 && e.note == nil:
				r.fresh = append(r.fresh, stale{f, e})
			}
		}
	}
	s.leave(f)
	return nil
}

// store reads what is to be read.
func (r *revisit) store(ctx context.Context) (read int, err error) {
	slices.SortFunc(r.fresh, func(a, b stale) int { return cmp.Compare(a.entry.path, b.entry.path) })
	in, ctx := newIntake(ctx, r.g, Paused)
	err = in.close(ctx, r.hand(ctx, in))
	return in.files, err
}

func (r *revisit) hand(ctx context.Context, in *intake) error {
	var dir *os.File
	var of *folder
	defer func() {
		if dir != nil {
			_ = dir.Close() // it was only read
		}
	}()
	judge, seen := r.g.newPass(), map[uint64]bool{}
	for _, f := range r.fresh {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if of != f.dir {
			if dir != nil {
				_ = dir.Close()
			}
			var err error
			if dir, err = r.at(f.dir.path, unix.O_PATH); err != nil {
				return named(f.dir.path, err)
			}
			of = f.dir
		}
		if f.entry.stat.Nlink > 1 && seen[f.entry.stat.Ino] {
			continue
		}
		seen[f.entry.stat.Ino] = true
		xattrs, marks, err := judge.attributes(f.entry.path, f.entry.xattrs)
		if err == nil && !marks.metacopy { // its content is the base's
			err = in.take(ctx, dir, f.entry, xattrs, false)
		}
		if err != nil {
			return named(f.entry.path, err)
		}
	}
	return nil
}

// settleFolders gives the entries of directories the numbers that their own visits found.
func settleFolders(f *folder) {
	for _, p := range f.parts {
		for i := range p.entries {
			e := &p.entries[i]
			if e.folder == nil {
				continue
			}
			// the fingerprint of an emptied one has its xattrs
			if !identical(&e.stat, &e.folder.stat) || e.folder.rules.All() {
				e.stat, p.stale = e.folder.stat, true
			}
			settleFolders(e.folder)
		}
	}
}
