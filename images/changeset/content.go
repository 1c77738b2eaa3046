package changeset

import (
	"context"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// note is what is known of a content that was sent.
type note struct {
	mtime, ctime, size int64
	content            uint64
}

// known returns the number of a file's content that has been sent, and has not changed since; 0: there is none.
func (p *packer) known(st *unix.Stat_t) uint64 {
	n, ok := p.notes[st.Ino]
	if !ok || n.mtime != st.Mtim.Nano() || n.ctime != st.Ctim.Nano() || n.size != st.Size {
		return 0
	}
	return n.content
}

// errMoved says that an entry is not what it was a moment ago.
var errMoved = errors.New("it changed while it was read")

func unchanged(a, b *unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim &&
		a.Ctim == b.Ctim
}

// content sends what a file holds. One that changes meanwhile is dropped, which is an error.
func (p *packer) content(ctx context.Context, dir *os.File, name string, st *unix.Stat_t) (uint64, error) {
	f, err := tree.Open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	now, err := tree.StatFile(f)
	if err == nil && !unchanged(&now, st) {
		err = errMoved
	}
	if err != nil {
		return 0, err
	}
	// A page that is dirty in a shared mapping would be written again without new times, until its writing out begins.
	if err := unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE); err != nil && !errors.Is(err, unix.ESPIPE) {
		return 0, &os.PathError{Op: "write out", Path: name, Err: err}
	}
	p.last++
	if err := p.out.numbers(frameContent, p.last, uint64(st.Size)); err != nil {
		return 0, err
	}
	err = p.copy(ctx, f, st.Size)
	if now, again := tree.StatFile(f); err == nil && (again != nil || !unchanged(&now, st)) {
		err = errors.Join(again, errMoved)
	}
	if err != nil {
		return 0, errors.Join(err, p.out.frame(frameDropped))
	}
	p.notes[st.Ino] = note{mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), size: st.Size, content: p.last}
	return p.last, p.out.frame(frameKept)
}

// copy sends what lies between the holes.
func (p *packer) copy(ctx context.Context, f *os.File, size int64) error {
	if p.buf == nil {
		p.buf = make([]byte, dataSize)
	}
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole is left
		}
		if err != nil {
			return &os.PathError{Op: "seek data", Path: f.Name(), Err: err}
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return &os.PathError{Op: "seek hole", Path: f.Name(), Err: err}
		}
		for at = start; at < min(end, size); {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			n, err := f.ReadAt(p.buf[:min(int64(len(p.buf)), min(end, size)-at)], at)
			if n == 0 {
				return errors.Join(errMoved, err)
			}
			if err := p.out.frame(frameData, binary.AppendUvarint(nil, uint64(at)), p.buf[:n]); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return nil
}
