package images

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/export"
	"slipway/images/squashfs"
	"slipway/internal/errs"
)

// TestABombIsNotLaidOut: a block that stands in many files of a squashfs would be in a layer as many times.
func TestABombIsNotLaidOut(t *testing.T) {
	const block = 1 << 20
	full := func(blocks int) *squashfs.Node {
		d := &squashfs.Data{Size: uint64(blocks) * block, Sparse: 1 << 40, Fragment: squashfs.NoFragment, Blocks: make([]uint32, blocks)}
		for i := range d.Blocks {
			d.Blocks[i] = 4096
		}
		return &squashfs.Node{Kind: squashfs.File, Data: d}
	}
	hole := full(3)
	hole.Data.Blocks[0], hole.Data.Blocks[2] = 0, 0
	hole.Data.Size += 7
	hole.Data.Fragment = 0
	twice := full(2)
	root := &squashfs.Node{Kind: squashfs.Dir, Children: []squashfs.Entry{{Name: "a", Node: hole}, {Name: "b", Node: twice}, {Name: "c", Node: twice}}}
	image := &squashfs.Image{Super: squashfs.Superblock{BlockSize: block}, Root: root}
	if got := export.Contents(image); got != 3*block+7 {
		t.Errorf("%d bytes", got)
	}
	l := newLibrary(t)
	if err := l.fits(image); err != nil {
		t.Errorf("what fits: %v", err)
	}
	same := full(1 << 16) // 64 GiB
	for range 1 << 10 {
		root.Children = append(root.Children, squashfs.Entry{Name: "n", Node: &squashfs.Node{Kind: squashfs.File, Data: &squashfs.Data{
			Size: same.Data.Size, Blocks: same.Data.Blocks, Fragment: squashfs.NoFragment,
		}}})
	}
	if err := l.fits(image); !errs.Is(err, errs.NoSpace) {
		t.Errorf("64 TiB: %v", err)
	}
}

// TestHolesAreBounded: many gigabytes of holes are nothing to a freeze and a thaw, and would be as many of zeros in a
// layer.
func TestHolesAreBounded(t *testing.T) {
	const holes = 1 << 38
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		return errors.Join(write(filepath.Join(root, "opt/data"), "x"), os.Truncate(filepath.Join(root, "opt/data"), holes))
	})
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	err := l.Export(t.Context(), e.Digest, nil, io.Discard)
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/opt/data") {
		t.Errorf("export: %v", err)
	}
	noLeftovers(t, l)
	thawed, err := l.Thaw(t.Context(), e.Digest)
	upper := filepath.Join(f.dir, "thawed")
	must(t, err, os.Mkdir(upper, 0o700), thawed.Fill(t.Context(), upper))
	if st, err := os.Stat(filepath.Join(upper, "opt/data")); err != nil || st.Size() != holes {
		t.Errorf("thawed: %v, %v", st, err)
	}
}

// TestOneIsLaidOutAtATime: who waits for another's image can go.
func TestOneIsLaidOutAtATime(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	l.layingOut <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Export(ctx, e.Digest, nil, io.Discard) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-l.layingOut
	if err := l.Export(t.Context(), e.Digest, nil, io.Discard); err != nil {
		t.Error(err)
	}
}
