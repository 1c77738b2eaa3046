package changeset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"slipway/images/tree"
	"slipway/internal/errs"
)

const (
	magic     = "slipway changes 1\n"
	maxFrame  = 1 << 20
	dataSize  = 256 << 10 // of one data frame
	frameHead = 2         // bytes of a frame beside its own, at least
	maxName   = 255
	maxLink   = 4095 // bytes of a symbolic link's target
)

// The frames, as package documentation lists them.
const (
	frameTotals  = 't'
	frameContent = 'c'
	frameData    = 'd'
	frameKept    = 'k'
	frameDropped = 'x'
	frameEntry   = 'e'
	frameUp      = 'u'
	frameFault   = 'f'
	frameEnd     = 'z'
)

// sender writes frames. Its first error stays.
type sender struct {
	w   *bufio.Writer
	sum hash.Hash32
	err error
}

func newSender(w io.Writer) *sender {
	s := &sender{w: bufio.NewWriterSize(w, dataSize+64), sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	s.write([]byte(magic))
	return s
}

func (s *sender) write(b []byte) {
	s.sum.Write(b)
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

// frame writes one whose bytes are given in parts.
func (s *sender) frame(kind byte, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > maxFrame {
		return errs.New(errs.Conflict, "its names and attributes have %d bytes, at most %d travel", size, maxFrame)
	}
	s.write(binary.AppendUvarint([]byte{kind}, uint64(size)))
	for _, p := range parts {
		s.write(p)
	}
	return s.err
}

func (s *sender) numbers(kind byte, n ...uint64) error {
	var b []byte
	for _, v := range n {
		b = binary.AppendUvarint(b, v)
	}
	return s.frame(kind, b)
}

// end closes the stream.
func (s *sender) end() error {
	sum := s.sum.Sum(nil)
	if err := s.frame(frameEnd, sum); err != nil {
		return err
	}
	return s.w.Flush()
}

// fault tells the other side why nothing more comes.
func (s *sender) fault(err error) {
	row := errs.RowOf(errs.KindOf(err))
	text := err.Error()
	// the stream is cut anyway
	_ = s.frame(frameFault, appendText(appendText(nil, row.Code), text[:min(len(text), maxFaultText)]))
	_ = s.w.Flush()
}

const maxFaultText = 4 << 10

// receiver reads frames.
type receiver struct {
	r   *bufio.Reader
	sum hash.Hash32
	buf []byte
}

func newReceiver(r io.Reader) (*receiver, error) {
	v := &receiver{r: bufio.NewReaderSize(r, dataSize), sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	b, err := v.read(len(magic))
	if err != nil {
		return nil, err
	}
	if string(b) != magic {
		return nil, errs.New(
			errs.Invalid, "it is no stream of changes, or one of another version: it begins with %q", b,
		).With("restart the session, so that its agent is of the service's version")
	}
	return v, nil
}

func (v *receiver) read(n int) ([]byte, error) {
	if cap(v.buf) < n {
		v.buf = make([]byte, max(n, 4<<10))
	}
	b := v.buf[:n]
	if _, err := io.ReadFull(v.r, b); err != nil {
		return nil, cut(err)
	}
	v.sum.Write(b)
	return b, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errs.New(errs.Unavailable, "the stream of changes was cut off: %w", io.ErrUnexpectedEOF).
			With("freeze again")
	}
	return fmt.Errorf("read the stream of changes: %w", err)
}

// ReadByte is for varints.
func (v *receiver) ReadByte() (byte, error) {
	b, err := v.read(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// next returns a frame, whose bytes are good until the next one is read. sum is what the end must have.
func (v *receiver) next() (kind byte, payload *fields, sum uint32, err error) {
	sum = v.sum.Sum32()
	if kind, err = v.ReadByte(); err != nil {
		return 0, nil, 0, err
	}
	size, err := binary.ReadUvarint(v)
	switch {
	case err != nil:
		return 0, nil, 0, cut(err)
	case size > maxFrame:
		return 0, nil, 0, damaged("a frame of %d bytes", size)
	}
	b, err := v.read(int(size))
	return kind, &fields{b: b}, sum, err
}

// over says whether nothing follows.
func (v *receiver) over() error {
	if _, err := v.r.ReadByte(); !errors.Is(err, io.EOF) {
		return damaged("more behind its end")
	}
	return nil
}

func damaged(format string, args ...any) error {
	return errs.New(errs.Invalid, "the stream of changes is damaged: "+format, args...).
		With("freeze again; if it lasts, restart the session")
}

// fields takes a frame apart. What is missing is zero, and noted.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.b)
	if size <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[size:]
	return n
}

// limited returns a number up to most.
func (f *fields) limited(most uint64) uint64 {
	n := f.number()
	if n > most {
		f.bad = true
		return 0
	}
	return n
}

func (f *fields) text(most uint64) []byte {
	n := f.limited(most)
	if n > uint64(len(f.b)) {
		f.bad = true
		return nil
	}
	t := f.b[:n]
	f.b = f.b[n:]
	return t
}

// done says whether the frame was read to its end and nothing was missing.
func (f *fields) done() bool { return !f.bad && len(f.b) == 0 }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// entry is one of the tree.
type entry struct {
	name     string
	mode     uint32 // kind and permissions, as stat(2) has them; a whiteout is a character device 0:0
	uid, gid uint32
	sec      int64
	nsec     uint32
	rdev     uint64
	content  uint64 // number of a file's content; 0: it is empty
	// The same for all names of one file; 0: it has but one. Of all but the first only name and mode count.
	link   uint64
	opaque bool // nothing of the image shows in this directory
	target string
	xattrs []tree.Xattr // sorted by name
}

func (e *entry) append(b []byte) []byte {
	b = appendText(b, e.name)
	opaque := uint64(0)
	if e.opaque {
		opaque = 1
	}
	for _, n := range [...]uint64{
		uint64(e.mode), uint64(e.uid), uint64(e.gid), uint64(e.sec)<<1 ^ uint64(e.sec>>63), uint64(e.nsec), e.rdev,
		e.content, e.link, opaque,
	} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendText(b, e.target)
	b = binary.AppendUvarint(b, uint64(len(e.xattrs)))
	for _, x := range e.xattrs {
		b = appendText(appendText(b, x.Name), string(x.Value))
	}
	return b
}

const maxXattrs = 1 << 12

func parseEntry(f *fields) (entry, error) {
	const word = 1<<32 - 1
	e := entry{name: string(f.text(maxName))}
	e.mode, e.uid, e.gid = uint32(f.limited(1<<16-1)), uint32(f.limited(word)), uint32(f.limited(word))
	z := f.number()
	e.sec, e.nsec = int64(z>>1)^-int64(z&1), uint32(f.limited(1e9-1))
	e.rdev, e.content, e.link, e.opaque = f.limited(word), f.number(), f.number(), f.limited(1) == 1
	e.target = string(f.text(maxLink))
	for n := f.limited(maxXattrs); n > 0 && !f.bad; n-- {
		e.xattrs = append(
			e.xattrs, tree.Xattr{Name: string(f.text(maxName)), Value: append([]byte{}, f.text(1<<16)...)},
		)
	}
	if !f.done() {
		return entry{}, damaged("an entry that is not whole")
	}
	return e, nil
}
