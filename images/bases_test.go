package images

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"slipway/images/bases"
)

// TestIdleBasesAreForgotten: a parsed base that nobody uses goes some minutes after its last use, and one that is used
// stays.
func TestIdleBasesAreForgotten(t *testing.T) {
	f := newFixture(t, nastyBase)
	made := newLibrary(t)
	e := freeze(t, made, f, nil)
	d, err := made.document(e.Digest)
	must(t, err)
	file := made.dir.Base(d.Base.Digest)
	synctest.Test(t, func(t *testing.T) {
		l := openLibrary(t, Config{Dir: t.TempDir() + "/l"})
		must(t, os.Link(file, l.dir.Base(d.Base.Digest)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		defer func() {
			stop()
			must(t, <-done)
		}()
		parsed := func() int {
			synctest.Wait()
			return l.opened.Len()
		}
		b, err := l.openBase(d.Base.Digest)
		must(t, err)
		time.Sleep(time.Hour)
		if n := parsed(); n != 1 {
			t.Errorf("%d are parsed while one is used", n)
		}
		b.Release()
		time.Sleep(bases.IdleAfter - bases.LookEvery)
		if n := parsed(); n != 1 {
			t.Errorf("%d are parsed a moment after one was used", n)
		}
		time.Sleep(2 * bases.LookEvery)
		if n := parsed(); n != 0 {
			t.Errorf("%d are parsed though nobody uses any", n)
		}
		again, err := l.openBase(d.Base.Digest)
		must(t, err)
		again.Release()
	})
}
