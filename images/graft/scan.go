package graft

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

// runtimeDir belongs to the base: what a source has there is neither compared nor taken.
const runtimeDir = ".singularity.d"

// tick is longer than the clock that file times come from ever stands still.
const tick = 20 * time.Millisecond

// Scan walks the upper directory without reading a file. Equal states: nothing has changed in between. What vanishes
// meanwhile counts as never seen.
func Scan(ctx context.Context, upper string, strip *tree.Strip) (state string, files, bytes int64, err error) {
	root, err := tree.OpenDir(upper)
	if err != nil {
		return "", 0, 0, err
	}
	defer root.Close()
	st, err := tree.StatFile(root)
	if err != nil {
		return "", 0, 0, err
	}
	print := newPrint()
	print.note("", &st)
	scout, top := newScout(ctx, scouts(), root, st.Dev, strip.Top(), nil, false)
	defer scout.end()
	if err := scan(scout, top, print); err != nil {
		return "", 0, 0, err
	}
	files, bytes, state = print.sums()
	return state, files, bytes, nil
}

// scan adds all that lies in a directory to a fingerprint.
func scan(s *scout, f *folder, all *print) error {
	switch err := s.visit(f); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return nil // gone, or replaced by something else since: a changed fingerprint is all that follows
	case err != nil:
		return fmt.Errorf("scan /%s: %w", f.path, err)
	}
	for _, p := range f.parts {
		entries := s.look(p)
		all.add(p.print)
		for i := range entries {
			e := &entries[i]
			if e.err == nil && e.folder != nil {
				e.err = scan(s, e.folder, all)
			}
			if e.err != nil && !errors.Is(e.err, fs.ErrNotExist) {
				return e.err
			}
		}
	}
	s.leave(f)
	f.parts = nil // nobody asks for them again
	return nil
}

// look looks at an entry that must lie on dev, 0 for any.
func look(dir *os.File, name, path string, dev uint64) (unix.Stat_t, error) {
	if len(path) > tree.MaxPath {
		return unix.Stat_t{}, errs.New(
			errs.Conflict, "the path %.60q... has %d bytes, at most %d can be packed", path, len(path), tree.MaxPath,
		).With("shorten or remove it and freeze again")
	}
	st, err := tree.StatAt(dir, name)
	if err == nil && dev != 0 && st.Dev != dev {
		err = errs.New(errs.Conflict, "/%s lies on another file system than the upper directory", path)
	}
	return st, err
}

// print is the fingerprint of a walk.
type print struct {
	hash         hash.Hash
	buf          []byte
	files, bytes int64
	newest       time.Time // ctime
}

func newPrint() *print { return &print{hash: sha256.New()} }

// note adds what tells a changed entry from an unchanged one.
func (p *print) note(path string, st *unix.Stat_t) {
	p.buf = binary.LittleEndian.AppendUint64(p.buf[:0], uint64(len(path)))
	p.buf = append(p.buf, path...)
	for _, v := range [...]uint64{
		st.Ino, uint64(st.Mode), uint64(st.Uid)<<32 | uint64(st.Gid), uint64(st.Nlink), st.Rdev, uint64(st.Size),
		uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec),
	} {
		p.buf = binary.LittleEndian.AppendUint64(p.buf, v)
	}
	p.hash.Write(p.buf)
	p.files++
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		p.bytes += min(st.Size, st.Blocks*512)
	}
	if at := time.Unix(st.Ctim.Sec, st.Ctim.Nsec); at.After(p.newest) {
		p.newest = at
	}
}

// noteEmptied adds a directory that travels without what is in it. Whatever is made or removed there changes its times,
// which do not travel; what they would tell of its xattrs is told by these themselves.
func (p *print) noteEmptied(path string, st *unix.Stat_t, xattrs []tree.Xattr) {
	p.note(path, &unix.Stat_t{Mode: st.Mode, Uid: st.Uid, Gid: st.Gid})
	var all []byte
	for _, x := range xattrs {
		if mark, ok := strings.CutPrefix(x.Name, tree.OverlayPrefix); ok && new(marks).add(mark, x.Value) {
			continue // overlayfs sets them as it likes
		}
		for _, s := range [][]byte{[]byte(x.Name), x.Value} {
			all = append(binary.AppendUvarint(all, uint64(len(s))), s...)
		}
	}
	p.hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(all))))
	p.hash.Write(all)
}

// add adds what another fingerprint is of.
func (p *print) add(other *print) {
	p.hash.Write(other.hash.Sum(p.buf[:0]))
	p.files, p.bytes = p.files+other.files, p.bytes+other.bytes
	if other.newest.After(p.newest) {
		p.newest = other.newest
	}
}

func (p *print) sums() (files, bytes int64, state string) {
	return p.files, p.bytes, hex.EncodeToString(p.hash.Sum(nil))
}

// ripen waits until a change of the newest entry would show in its times.
func ripen(ctx context.Context, newest time.Time) error {
	age := time.Since(newest)
	if age < 0 || age >= tick {
		return nil
	}
	clock.Sleep(ctx, tick-age)
	return ctx.Err()
}

// printOf makes the fingerprint of a part anew.
func printOf(p *part) *print {
	made := newPrint()
	for i := range p.entries {
		switch e := &p.entries[i]; {
		case e.err != nil:
		case e.folder != nil && e.folder.rules.All():
			made.noteEmptied(e.path, &e.stat, e.folder.xattrs)
		default:
			made.note(e.path, &e.stat)
		}
	}
	return made
}
