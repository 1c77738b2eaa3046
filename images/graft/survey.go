package graft

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/clock"
)

// survey is one walk of the upper directory, which stores what is not known yet. While the source runs, what changes or
// vanishes is left to the pause; in the pause every error is one.
type survey struct {
	g       *grafter
	running bool
	in      *intake
	scout   *scout
	judge   *pass // of attributes
	waits   int
	seen    map[inode]bool // inodes with several names that were stored
}

// survey returns the upper directory's root with all that lies below.
func (g *grafter) survey(ctx context.Context, stage Stage) (*folder, *intake, error) {
	in, ctx := newIntake(ctx, g, stage)
	s := &survey{g: g, running: stage == Reading, in: in, judge: g.newPass(), seen: map[inode]bool{}}
	top, err := s.walk(ctx)
	return top, in, in.close(ctx, err)
}

func (s *survey) walk(ctx context.Context) (*folder, error) {
	scout, top := newScout(ctx, scouts(), s.g.root, s.g.dev, s.g.cfg.Strip.Top(), s.g.notes, s.g.whole())
	defer scout.end()
	s.scout = scout
	return top, s.folder(ctx, top, lower{node: s.g.baseRoot()}, lower{})
}

// folder goes through a directory. What cannot be told from the base is refused here, before the source is paused.
func (s *survey) folder(ctx context.Context, f *folder, below, parent lower) error {
	if err := s.scout.visit(f); err != nil {
		return named(f.path, err)
	}
	_, marks, err := s.judge.attributes(f.path, f.xattrs)
	if err == nil {
		below, err = s.judge.beneath(f.path, marks, below, parent)
	}
	if err != nil {
		return named(f.path, err)
	}
	for _, part := range f.parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries := s.scout.look(part)
		for i := range entries {
			err := s.entry(ctx, f, &entries[i], below)
			if err != nil && !(s.running && leftForLater(err)) {
				return err
			}
		}
	}
	s.scout.leave(f)
	return nil
}

// leftForLater says whether an error is one of a single entry, which may be gone or whole in the pause.
func leftForLater(err error) bool {
	var number unix.Errno
	return errors.As(err, &number) || errors.Is(err, errMoved)
}

func (s *survey) entry(ctx context.Context, dir *folder, e *entry, below lower) error {
	switch {
	case e.err != nil:
		return named(e.path, e.err)
	case e.folder != nil:
		return s.folder(ctx, e.folder, below.dir(e.name), below)
	case e.stat.Mode&unix.S_IFMT != unix.S_IFREG:
		_, _, err := s.judge.attributes(e.path, e.xattrs)
		return named(e.path, err)
	default:
		return named(e.path, s.file(ctx, dir, e, below))
	}
}

// file stores a regular file, unless that was done.
func (s *survey) file(ctx context.Context, dir *folder, e *entry, below lower) error {
	before := s.judge.losses.ACLs.Count + s.judge.losses.Xattrs.Count
	xattrs, marks, err := s.judge.attributes(e.path, e.xattrs)
	if err != nil || e.stat.Size == 0 || e.stat.Nlink > 1 && s.seen[inodeOf(&e.stat)] {
		return err
	}
	if e.stat.Nlink > 1 {
		s.seen[inodeOf(&e.stat)] = true
	}
	if marks.metacopy {
		_, err := s.judge.keptContent(e, marks.redirect, below)
		return err
	}
	if e.note != nil {
		return s.in.add(ctx, &job{known: e.note, path: e.path})
	}
	if s.running {
		if ripe, err := s.ripe(ctx, dir.file, e.name, &e.stat); err != nil || !ripe {
			return err
		}
	}
	plain := e.ripe && before == s.judge.losses.ACLs.Count+s.judge.losses.Xattrs.Count
	return s.in.take(ctx, dir.file, e, xattrs, plain)
}

// maxWaits bounds how often one pass stops for files that have just been written.
const maxWaits = 3

// ripe says whether a change of the file from now on will show in its times. For a file that is merely young it waits;
// one that is written all the time is left to the next pass.
func (s *survey) ripe(ctx context.Context, dir *os.File, name string, st *unix.Stat_t) (bool, error) {
	if age(st) >= tick {
		return true, nil
	}
	if s.waits >= maxWaits {
		return false, nil
	}
	s.waits++
	if !clock.Sleep(ctx, tick) {
		return false, ctx.Err()
	}
	now, err := tree.StatAt(dir, name)
	return err == nil && unchanged(&now, st) && age(st) >= tick, err
}

func age(st *unix.Stat_t) time.Duration { return time.Since(time.Unix(st.Ctim.Sec, st.Ctim.Nsec)) }
