// Package imagefile reads the file of an environment's image, whole or thin, and compares it with the environment's
// document.
//
// A freeze leaves a thin image: a SIF whose file has nothing but holes where the partition has the base's bytes and the
// tail's. The tail lies in packs, which the environments of a session share by hard links: the last link that goes takes
// the bytes along, so nothing has to count who needs them.
//
//	tails/<hex>/map.json  where the tail lies, by parts of packs, in order
//	tails/<hex>/<pack>    what freezes have stored
//	tails/<hex>/thin      the image is thin; without it the file is whole
//
// It promises that a thin image reads like the whole one. It must not know where a library has which file, or when an
// image is filled and made thin again.
package imagefile

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/manifest"
	"slipway/images/sif"
)

// section is a part of an image that lies in another file.
type section struct {
	from, to int64 // in the image
	file     *os.File
	at       int64 // in the file
}

// Whole reads an image as it is when it is filled.
type Whole struct {
	*os.File
	sections []section // in order
	opened   []*os.File
}

// Thin says whether the file has holes.
func (w *Whole) Thin() bool { return len(w.sections) > 0 }

// Close closes all but the image's own file.
func (w *Whole) Close() error {
	var all error
	for _, f := range w.opened {
		all = errors.Join(all, f.Close())
	}
	return all
}

// ReadAt reads from wherever the bytes are.
func (w *Whole) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		i, _ := slices.BinarySearchFunc(
			w.sections, at, func(s section, at int64) int { return cmp.Compare(s.to, at+1) },
		)
		from, start, end := w.File, at, at+int64(len(b)-n)
		if i < len(w.sections) {
			if s := w.sections[i]; at >= s.from {
				from, start, end = s.file, s.at+at-s.from, min(end, s.to)
			} else {
				end = min(end, s.from)
			}
		}
		m, err := from.ReadAt(b[n:n+int(end-at)], start)
		n, at = n+m, at+int64(m)
		if at < end {
			return n, cmp.Or(err, io.ErrUnexpectedEOF)
		}
	}
	return n, nil
}

// Parts says where the parts of a thin image lie. tails is the directory of its packs.
func Parts(f, base *os.File, cut int64, tails string, extents []graft.Extent) (*Whole, error) {
	w := &Whole{File: f}
	if base != nil {
		w.sections = append(w.sections, section{
			sif.PartitionOffset + manifest.SuperblockSize, sif.PartitionOffset + cut, base, manifest.SuperblockSize,
		})
	}
	packs, at := map[string]*os.File{}, sif.PartitionOffset+cut
	for _, e := range extents {
		pack := packs[e.Pack]
		if pack == nil {
			var err error
			if pack, err = os.Open(filepath.Join(tails, filepath.Base(e.Pack))); err != nil {
				return nil, errors.Join(err, w.Close())
			}
			packs[e.Pack], w.opened = pack, append(w.opened, pack)
		}
		w.sections = append(w.sections, section{at, at + e.Length, pack, e.Offset})
		at += e.Length
	}
	return w, nil
}

// ClosesToo has Close close another file too.
func (w *Whole) ClosesToo(f *os.File) { w.opened = append(w.opened, f) }

// Fill writes the parts that a thin image has elsewhere.
func (w *Whole) Fill(ctx context.Context, file *os.File, d manifest.Document) error {
	base := w.sections[0]
	if _, err := sif.CopyBase(ctx, file, sif.PartitionOffset, base.file, d.CutAt(), nil); err != nil {
		return err
	}
	for _, s := range w.sections[1:] {
		if err := blob.Copy(ctx, io.NewOffsetWriter(file, s.from), s.file, s.at, s.at+s.to-s.from); err != nil {
			return err
		}
	}
	return nil
}
