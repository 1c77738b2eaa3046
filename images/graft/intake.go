package graft

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
)

const (
	readers  = 4       // goroutines that read small files ahead: a cold disk answers several at once
	ahead    = 32      // files that are open and read, or being read, before their turn
	smallMax = 1 << 20 // bytes of a file that is read ahead whole
	tinyMax  = 1 << 15 // of one that makes do with a small buffer, as most files do
)

// job is one file to store.
type job struct {
	known  *note // it is stored: only its place in the order counts
	file   raw
	path   string
	stat   unix.Stat_t
	plain  bool // its xattrs are to be noted
	xattrs *squashfs.Xattrs
	entry  *entry            // of a whole tree, which keeps the note
	small  []byte            // the content of a small file
	sum    [sha256.Size]byte // of small, for a whole tree
	lent   *[]byte           // the buffer that small lies in
	err    error             // why the content is not what stat says
	ready  chan struct{}
}

// intake stores the files of one pass in the order in which they were added, while several are read at once.
type intake struct {
	g       *grafter
	cancel  context.CancelCauseFunc // with the first error
	stage   Stage
	order   chan *job // to the one that stores
	queue   chan *job // to those that read ahead
	done    sync.WaitGroup
	groups  *grouper
	buffers [2]sync.Pool                         // of tinyMax and of smallMax bytes
	stored  map[[sha256.Size]byte]*squashfs.Data // of a whole tree: an image has many a file twice
	files   int                                  // stored
	bytes   int64                                // read
}

// newIntake begins one. Its context ends with ctx, and with the first error: what is asked of it is asked with that.
func newIntake(ctx context.Context, g *grafter, stage Stage) (*intake, context.Context) {
	in := &intake{
		g: g, stage: stage, order: make(chan *job, ahead), queue: make(chan *job, ahead+1),
		groups: newGrouper(g.writer, g.own), stored: map[[sha256.Size]byte]*squashfs.Data{},
	}
	ctx, in.cancel = context.WithCancelCause(ctx)
	g.cfg.Progress(stage, 0, 0)
	in.buffers[0].New = func() any { return buffer(tinyMax) }
	in.buffers[1].New = func() any { return buffer(smallMax) }
	for range readers {
		in.done.Go(func() { in.read(ctx) })
	}
	in.done.Go(func() { in.store(ctx) })
	return in, ctx
}

// add hands over a job, and its file.
func (in *intake) add(ctx context.Context, j *job) error {
	select {
	case in.order <- j:
		if j.known != nil {
			return nil
		}
		in.queue <- j // has room for whatever order holds, and for the one that is waited for
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), j.file.close())
	}
}

// take opens a file that is to be stored, and hands it over. plain says that its xattrs are known for as long as its
// times stay.
func (in *intake) take(ctx context.Context, dir *os.File, e *entry, xattrs *squashfs.Xattrs, plain bool) error {
	f, err := openRaw(dir, e.name, e.path)
	if err != nil {
		return err
	}
	now, err := f.stat()
	if err == nil && (!unchanged(&now, &e.stat) || now.Dev != e.stat.Dev) {
		err = errMoved
	}
	if err != nil {
		return errors.Join(err, f.close())
	}
	return in.add(
		ctx, &job{file: f, path: e.path, stat: now, entry: e, xattrs: xattrs, plain: plain, ready: make(chan struct{})},
	)
}

// close waits until every job is done, and gives the first error: of the walk, which is err, or of the intake.
func (in *intake) close(ctx context.Context, err error) error {
	close(in.order)
	close(in.queue)
	if err != nil {
		in.cancel(err) // what is left to do is of no use; an earlier cause stays
	}
	in.done.Wait()
	err = context.Cause(ctx)
	in.cancel(nil)
	return err
}

func (in *intake) read(ctx context.Context) {
	for j := range in.queue {
		if ctx.Err() == nil {
			in.prepare(j)
		}
		close(j.ready)
	}
}

// willNeed is how much of a large file the kernel is asked to fetch before its turn.
const willNeed = 8 << 20

// prepare makes the file's pages clean, so that writing to them shows from here on, and reads what it can.
func (in *intake) prepare(j *job) {
	// A page is clean from when its writing begins: nobody needs to wait for the end of it.
	const begin = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE
	if err := unix.SyncFileRange(j.file.fd, 0, 0, begin); err != nil {
		j.err = j.file.failed("write out", err)
		return
	}
	if j.stat.Size > smallMax {
		_ = unix.Fadvise(j.file.fd, 0, willNeed, unix.FADV_WILLNEED) // only a hint
		return
	}
	in.readSmall(j)
}

func (in *intake) readSmall(j *job) {
	j.lent = in.pool(j).Get().(*[]byte)
	j.small = (*j.lent)[:j.stat.Size]
	n, err := j.file.ReadAt(j.small, 0)
	if n < len(j.small) && (err == nil || errors.Is(err, io.EOF)) {
		err = errMoved
	}
	if n == len(j.small) {
		err = j.verify()
	}
	if err == nil && in.g.whole() {
		j.sum = sha256.Sum256(j.small)
	}
	if j.err = err; err == nil && in.g.cfg.Look != nil {
		in.g.cfg.Look("/"+j.path, j.small)
	}
}

func buffer(size int) *[]byte {
	b := make([]byte, size)
	return &b
}

func (in *intake) pool(j *job) *sync.Pool {
	if j.stat.Size <= tinyMax {
		return &in.buffers[0]
	}
	return &in.buffers[1]
}

// verify says whether the file is still what it was before it was read.
func (j *job) verify() error {
	now, err := j.file.stat()
	if err == nil && !unchanged(&now, &j.stat) {
		err = errMoved
	}
	return err
}

func (in *intake) store(ctx context.Context) {
	for j := range in.order {
		if j.known != nil {
			if ctx.Err() == nil {
				in.stop(in.group(ctx, j.path, j.known, nil))
			}
			continue
		}
		<-j.ready
		err := ctx.Err()
		if err == nil {
			err = in.one(ctx, j)
		}
		if closeErr := j.file.close(); err == nil {
			err = closeErr
		}
		if j.lent != nil {
			in.pool(j).Put(j.lent)
		}
		in.stop(err)
	}
	if ctx.Err() == nil {
		in.stop(in.groups.end(ctx))
	}
}

func (in *intake) stop(err error) {
	if err != nil {
		in.cancel(err)
	}
}

// group gives a file its place in the order.
func (in *intake) group(ctx context.Context, path string, n *note, rest []byte) error {
	if err := in.groups.before(ctx, n); err != nil {
		return err
	}
	return in.groups.add(ctx, path, n, rest)
}

// one stores a file. That it cannot be read as it was is an error only when nothing should have changed it.
func (in *intake) one(ctx context.Context, j *job) error {
	known := &note{size: j.stat.Size}
	rest, err := in.put(ctx, j, known)
	if err != nil {
		return err
	}
	if j.err != nil {
		if in.stage == Reading {
			return nil
		}
		return named(j.path, j.err)
	}
	if in.g.whole() { // which is walked once, and may be of several devices
		j.entry.note = known
	} else if err := in.keep(ctx, j, known, rest); err != nil {
		return err
	}
	in.files++
	in.bytes += j.stat.Size
	in.g.cfg.Progress(in.stage, int64(in.files), in.bytes)
	return nil
}

// keep notes a file of an upper directory, and gives it its place in the order.
func (in *intake) keep(ctx context.Context, j *job, known *note, rest []byte) error {
	if j.plain {
		known.xattrs, known.plain = j.xattrs, true
	}
	if err := in.group(ctx, j.path, known, rest); err != nil {
		return err
	}
	in.g.notes.add(&j.stat, known)
	return nil
}

// put returns the whole blocks to the writer, and the rest back; of a whole tree it gives all. An error of the file
// goes to the job, one of the writer is returned.
func (in *intake) put(ctx context.Context, j *job, known *note) (rest []byte, err error) {
	if j.err != nil {
		return nil, nil
	}
	whole := j.stat.Size
	if !in.g.whole() {
		whole -= whole % int64(in.g.writer.BlockSize())
	}
	if j.small != nil {
		if in.g.whole() {
			return nil, in.putOnce(ctx, j, known)
		}
		err := in.body(ctx, memory(j.small), whole, nil, known)
		return j.small[whole:], err
	}
	parts, err := extents(j.file, whole)
	if err != nil {
		j.err = err
		return nil, nil
	}
	src := &patient{from: j.file}
	if err := in.body(ctx, src, whole, parts, known); err != nil {
		return nil, err
	}
	rest = make([]byte, j.stat.Size-whole)
	if len(rest) > 0 {
		_, _ = src.ReadAt(rest, whole) // it keeps its errors
	}
	if j.err = src.err; j.err == nil {
		j.err = j.verify()
	}
	return rest, nil
}

// putOnce stores a small file of a whole tree, unless another one has the same content.
func (in *intake) putOnce(ctx context.Context, j *job, known *note) error {
	if known.data = in.stored[j.sum]; known.data != nil {
		return nil
	}
	err := in.body(ctx, memory(j.small), j.stat.Size, nil, known)
	in.stored[j.sum] = known.data
	return err
}

func (in *intake) body(
	ctx context.Context, src io.ReaderAt, whole int64, parts []squashfs.Extent, known *note,
) error {
	if whole == 0 {
		return nil
	}
	data, err := in.g.writer.Put(ctx, src, whole, parts)
	if in.g.whole() {
		known.data = data
	} else {
		known.body = &body{stored: stored{pack: in.g.own}, data: data}
	}
	return err
}
