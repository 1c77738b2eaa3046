package changeset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// Owner is a user and group.
type Owner struct{ UID, GID uint32 }

// Limits bound what a stream may bring. A zero stands for the default.
type Limits struct {
	Entries int64 // 20 million
	Bytes   int64 // of the stream, in which holes are nothing: 1 TiB
	Sizes   int64 // of all files together, with their holes, which cost whoever freezes them: 4 TiB
}

func (l Limits) complete() Limits {
	for _, f := range []struct {
		limit *int64
		value int64
	}{{&l.Entries, 20e6}, {&l.Bytes, 1 << 40}, {&l.Sizes, 1 << 42}} {
		if *f.limit == 0 {
			*f.limit = f.value
		}
	}
	return l
}

// Target says what becomes of a stream.
type Target struct {
	Dir string // the caller's own. The upper directory comes to lie in it; after an error nothing does
	// Fill makes, in an empty directory, the changes that these are over: those of an environment that the session was
	// started from. nil: these are over the image itself.
	Fill func(ctx context.Context, upper string) error
	// Owner is given to all that was packed, for a session that had but one owner and so could tell nothing by it.
	// Directories of the image keep theirs: that a session without rights changes what is in them makes them no
	// other's. nil: owners are as packed. With it attributes that only root sets are left out.
	Owner *Owner
	// Layers are the image's directories, topmost first. Owner needs them. With Fill they tell which deletions hide
	// something of the image: others would be seen where a directory is not merged. nil: all are marked.
	Layers   []string
	Image    *Image // instead of Layers: whoever knows the image tells of it
	Limits   Limits
	Progress func(Progress) // nil: nobody is told. Quick
}

// Image tells what an image has.
type Image struct {
	// Has says whether it has anything at a path.
	Has func(path string) (bool, error)
	// Directory tells whose the directory at a path is; false: there is none.
	Directory func(path string) (Owner, bool, error)
}

// Progress is how much has come, and about how much will come.
type Progress struct{ Files, Bytes, AllFiles, AllBytes int64 }

const unfinished = "unpacking"

// Unpack makes an upper directory of a stream, with the marks of the kernel's overlay as root mounts it. It takes root.
func Unpack(ctx context.Context, r io.Reader, t Target) (upper string, err error) {
	part, stage := filepath.Join(t.Dir, unfinished), filepath.Join(t.Dir, "contents")
	defer func() {
		err = errors.Join(err, os.RemoveAll(stage))
		if err != nil {
			err = fmt.Errorf("unpack the changes: %w", errors.Join(err, os.RemoveAll(part)))
		}
	}()
	if err := errors.Join(os.Mkdir(part, 0o700), os.Mkdir(stage, 0o700)); err != nil {
		return "", err
	}
	if t.Fill != nil {
		if err := t.Fill(ctx, part); err != nil {
			return "", err
		}
	}
	u, err := newUnpacker(r, t, part, stage)
	if err != nil {
		return "", err
	}
	defer u.close()
	if err := u.run(ctx); err != nil {
		return "", err
	}
	upper = filepath.Join(t.Dir, "upper")
	return upper, os.Rename(part, upper)
}

type unpacker struct {
	t    Target
	in   *receiver
	seen Progress

	heard  int64 // bytes of frames
	staged int64 // contents that wait for their name, or have got one
	sizes  int64 // of these

	stage   *os.File
	file    *os.File // the content that comes
	number  uint64
	size    int64
	written int64 // up to where
	last    uint64

	planter
}

func newUnpacker(r io.Reader, t Target, part, stage string) (*unpacker, error) {
	in, err := newReceiver(r)
	if err != nil {
		return nil, err
	}
	root, err := tree.OpenDir(part)
	if err != nil {
		return nil, err
	}
	contents, err := tree.OpenDir(stage)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	t.Limits = t.Limits.complete()
	if t.Image == nil && len(t.Layers) > 0 {
		t.Image = layered(t.Layers)
	}
	return &unpacker{
		t: t, in: in, stage: contents,
		planter: planter{
			root: root, stage: contents, owner: t.Owner, image: t.Image, links: map[uint64]string{},
			filled: t.Fill != nil,
		},
	}, nil
}

func (u *unpacker) close() {
	if u.file != nil {
		_ = u.file.Close() // after an error; it goes with the directory
	}
	u.planter.close()
	_ = u.stage.Close()
}

// run takes frames until the end.
func (u *unpacker) run(ctx context.Context) error {
	for {
		kind, f, sum, err := u.in.next()
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if u.heard += frameHead + int64(len(f.b)); u.heard > u.t.Limits.Bytes {
			return errs.New(errs.Invalid, "the session's changes have more than %d MB", u.t.Limits.Bytes/1e6).
				With("remove what is not needed, or make room for environments, and freeze again")
		}
		if u.file != nil && kind != frameData && kind != frameKept && kind != frameDropped && kind != frameFault {
			return damaged("a content without an end")
		}
		if kind == frameEnd {
			return u.end(f, sum)
		}
		if err := u.frame(kind, f); err != nil {
			return err
		}
	}
}

func (u *unpacker) end(f *fields, sum uint32) error {
	switch {
	case len(f.b) != 4 || binary.BigEndian.Uint32(f.b) != sum:
		return damaged("its check sum is wrong")
	case !u.complete():
		return damaged("it ends within the tree")
	}
	return u.in.over()
}

func (u *unpacker) frame(kind byte, f *fields) error {
	switch kind {
	case frameTotals:
		u.seen.AllFiles, u.seen.AllBytes = int64(f.limited(1<<62)), int64(f.limited(1<<62))
	case frameContent:
		return u.begin(f)
	case frameData:
		return u.data(f)
	case frameKept, frameDropped:
		if u.file == nil || !f.done() {
			return damaged("the end of no content")
		}
		return u.kept(kind == frameKept)
	case frameEntry:
		return u.entry(f)
	case frameUp:
		if !f.done() {
			return damaged("a frame that is not whole")
		}
		return u.up()
	case frameFault:
		return faultOf(f)
	default:
		return damaged("a frame of kind %q", kind)
	}
	if !f.done() {
		return damaged("a frame that is not whole")
	}
	return nil
}

// faultOf makes an error of what the other side says of itself.
func faultOf(f *fields) error {
	code, text := string(f.text(40)), f.text(maxFaultText)
	if !f.done() {
		return damaged("a fault that is not whole")
	}
	return errs.New(errs.ByCode(code), "the session's agent cannot pack its changes: %s", strconv.Quote(string(text)))
}

// begin makes the file for a content.
func (u *unpacker) begin(f *fields) error {
	number, size := f.number(), f.limited(1<<62)
	switch {
	case !f.done() || number <= u.last || u.tree > 0 && u.complete():
		return damaged("a content out of order")
	case int64(size) > u.t.Limits.Sizes-u.sizes:
		return errs.New(
			errs.Invalid, "the session's changes hold files of more than %d GB, with their holes", u.t.Limits.Sizes/1e9,
		).With("remove what is large and has holes, and freeze again")
	}
	u.sizes += int64(size)
	if u.staged++; u.staged > u.t.Limits.Entries {
		return u.tooMany()
	}
	fd, err := unix.Openat(
		int(u.stage.Fd()), contentName(number), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0o600,
	)
	if err != nil {
		return full(err)
	}
	u.file, u.number, u.last, u.size, u.written = os.NewFile(uintptr(fd), "content"), number, number, int64(size), 0
	return nil
}

func contentName(number uint64) string { return strconv.FormatUint(number, 10) }

func (u *unpacker) data(f *fields) error {
	at := int64(f.limited(1 << 62))
	end := at + int64(len(f.b))
	if u.file == nil || f.bad || at < u.written || end > u.size {
		return damaged("data out of place")
	}
	if _, err := u.file.WriteAt(f.b, at); err != nil {
		return full(err)
	}
	u.seen.Bytes += int64(len(f.b))
	u.written = end
	u.tell()
	return nil
}

func (u *unpacker) tell() {
	if u.t.Progress != nil {
		u.t.Progress(u.seen)
	}
}

// kept ends a content.
func (u *unpacker) kept(whole bool) error {
	f := u.file
	u.file = nil
	if !whole {
		u.staged, u.sizes = u.staged-1, u.sizes-u.size
		return errors.Join(f.Close(), unix.Unlinkat(int(u.stage.Fd()), contentName(u.number), 0))
	}
	return full(errors.Join(f.Truncate(u.size), f.Close()))
}

func (u *unpacker) entry(f *fields) error {
	e, err := parseEntry(f)
	if err != nil {
		return err
	}
	if u.seen.Files++; u.seen.Files > u.t.Limits.Entries {
		return u.tooMany()
	}
	u.tell()
	return u.plant(e)
}

func (u *unpacker) tooMany() error {
	return errs.New(errs.Invalid, "the session's changes have more than %d entries", u.t.Limits.Entries).
		With("remove what is not needed and freeze again")
}

// full gives a full disk a kind of its own.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errs.New(errs.NoSpace, "write the session's changes: %w", err).
			With("free space in the service's directory, and freeze again")
	}
	return err
}
