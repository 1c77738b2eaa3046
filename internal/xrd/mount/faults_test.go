package mount

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/xrd"
	"slipway/internal/xrd/xrdtest"
)

// TestCacheIsKilledDuringRead: who reads hears of it, and never gets less or something else; who opens the file again
// has the origin's.
func TestCacheIsKilledDuringRead(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	content := bytes.Repeat([]byte("0123456789abcdef"), 3<<20) // more than is read ahead
	origin.Put("a", string(content))
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Cache: cache.URL, Path: "/data", Mount: true, Write: true})
	file := filepath.Join(b.open(t, "s-1", "alice", 1), "eos.cached/a")
	b.keep(t, b.Mounter, Session{"s-1", "alice"})
	var f *os.File
	xrdtest.Eventually(t, "it is there", func() (err error) { f, err = os.Open(file); return err })
	defer f.Close()
	begin := make([]byte, 1<<16)
	if _, err := io.ReadFull(f, begin); err != nil {
		t.Fatal(err)
	}
	cache.Kill()
	rest, err := io.ReadAll(f)
	if got := append(begin, rest...); err == nil || len(got) == len(content) || !bytes.HasPrefix(content, got) {
		t.Errorf("%d of %d bytes were read, %v", len(got), len(content), err)
	}
	xrdtest.Eventually(t, "the origin's is read", reads(file, string(content)))
}

// TestOriginIsKilledDuringWrite: a large file's writer hears of it. A small one's does not, by xrootdfs: she is told,
// and no file that is not whole looks as if it were.
func TestOriginIsKilledDuringWrite(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	dir := filepath.Join(b.open(t, "s-1", "alice", 1), "eos")
	var large, small *os.File
	xrdtest.Eventually(t, "it can be written", func() (err error) { large, err = os.Create(filepath.Join(dir, "large")); return err })
	defer large.Close()
	small, err := os.Create(filepath.Join(dir, "a small one"))
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	for _, f := range []*os.File{large, small} {
		if _, err := f.Write([]byte("begun")); err != nil {
			t.Fatal(err)
		}
	}
	origin.Kill()
	written, chunk := 5, make([]byte, 1<<20)
	for err == nil && written < 64<<20 {
		_, err = large.Write(chunk)
		written += len(chunk)
	}
	if err == nil {
		t.Errorf("%d bytes were written to nowhere", written)
	}
	_ = small.Close() // says that all is well
	if info, err := os.Stat(filepath.Join(origin.Data, "a small one")); err != nil || info.Size() != 0 {
		t.Errorf("the origin has %v, %v", info, err)
	}
	b.keep(t, b.Mounter, Session{"s-1", "alice"})
	xrdtest.Eventually(t, "she is told", func() error {
		if told := b.heard(); !strings.Contains(told, "/storage/eos/a small one may not be in the storage") || strings.Count(told, "small one") > 1 {
			return fmt.Errorf("told: %s", told)
		}
		return nil
	})
	origin.Start()
	xrdtest.Eventually(t, "it is written again", func() error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "a small one"), []byte("whole"), 0o644), reads(filepath.Join(origin.Data, "a small one"), "whole")())
	})
}

// TestOriginIsGoneAtTheEnd: what a session, or a job, writes last and does not come to the storage is told before its
// end is.
func TestOriginIsGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	dir := filepath.Join(b.open(t, "s-1", "alice", 1), "eos")
	var f *os.File
	xrdtest.Eventually(t, "it can be written", func() (err error) { f, err = os.Create(filepath.Join(dir, "result")); return err })
	if _, err := f.WriteString("the result"); err != nil {
		t.Error(err)
	}
	log := filepath.Join(t.TempDir(), "log") // it goes with the session
	if err := os.Link(filepath.Join(b.cfg.RunDir, "s-1", "log-eos"), log); err != nil {
		t.Error(err)
	}
	origin.Kill()
	_ = f.Close() // says that all is well
	b.Close("s-1")
	kept, _ := os.ReadFile(filepath.Join(origin.Data, "result")) // xrootdfs has rarely sent it when the origin goes
	told := b.heard()
	if string(kept) != "the result" && !strings.HasPrefix(told, "What was last written to /storage/eos") {
		text, _ := os.ReadFile(log)
		t.Errorf("%q is kept, told: %q, and xrootdfs has said: %s", kept, told, text)
	}
	if left, _ := os.ReadDir(b.cfg.RunDir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestPartOfDirectoryIsRead: by the path through the cache, and that of an element that is only read, also a user reads
// who may read but a part of the directory, from servers whose certificate has their name alone.
func TestPartOfDirectoryIsRead(t *testing.T) {
	t.Parallel()
	trust := xrdtest.NewTrust(t, "localhost")
	origin := trust.TokenOrigin()
	cache := trust.TokenCache(origin)
	origin.Put("alice/a", "hers")
	origin.Put("bob/b", "his")
	b := newBench(t, trust.Dir, xrd.Element{Name: "eos", Origin: origin.URL, Cache: cache.URL, Path: "/data", Mount: true})
	b.give("alice", trust.Token("alice", "storage.read:/alice storage.create:/alice storage.modify:/alice", time.Hour))
	dir := b.open(t, "s-1", "alice", 1)
	for _, view := range []string{"eos", "eos.cached"} {
		xrdtest.Eventually(t, "hers by "+view, reads(filepath.Join(dir, view, "alice/a"), "hers"))
		if names, err := os.ReadDir(filepath.Join(dir, view, "alice")); err != nil || len(names) != 1 || names[0].Name() != "a" {
			t.Errorf("%s lists %v, %v", view, names, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, view, "bob/b")); err == nil {
			t.Errorf("%s gives %q of bob's", view, got)
		}
	}
	xrdtest.Eventually(t, "it is read a second time", reads(filepath.Join(dir, "eos/alice/a"), "hers"))
	if info, err := os.Stat(filepath.Join(origin.Data, "alice/a")); err != nil || info.Size() != 4 {
		t.Errorf("what was only read: %v, %v", info, err)
	}
}

// TestServersThatNobodyVouchesFor see no token and hold up nothing.
func TestServersThatNobodyVouchesFor(t *testing.T) {
	t.Parallel()
	for name, names := range map[string][]string{"another's certificate": {"elsewhere.example"}, "an unknown authority": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := xrdtest.NewTrust(t, names...)
			known := trust.Dir
			if names == nil {
				known = xrdtest.NewTrust(t).Dir
			}
			origin := trust.TokenOrigin()
			origin.Put("alice/a", "hers")
			b := newBench(t, known, xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
			b.give("alice", trust.Token("alice", scopesOf("alice"), time.Hour))
			dir := b.open(t, "s-1", "alice", 1)
			b.Await("s-1", xrdtest.Patience)
			if s := b.Status("s-1"); s[0].Trouble == "" {
				t.Errorf("%+v", s)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "eos/alice/a")); err == nil {
				t.Errorf("it gives %q", got)
			}
			if log := origin.Log(); strings.Contains(log, "login as xrootd") {
				t.Errorf("somebody was let in: %s", log)
			}
		})
	}
}
