package images

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"slipway/images/records"
	"slipway/internal/errs"
)

// noise writes n bytes that cannot be compressed.
func noise(t *testing.T, path string, n int) {
	t.Helper()
	data := make([]byte, n)
	_, err := rand.Read(data)
	must(t, err, os.WriteFile(path, data, 0o644))
}

// TestQuota: what outgrows an owner's quota is broken off as soon as it does, and nothing of it stays; what he has
// already he may freeze again, whatever is left.
func TestQuota(t *testing.T) {
	f := newFixture(t, nastyBase)
	quota, used := int64(3<<20), []string{}
	l := openLibrary(t, Config{
		Dir: t.TempDir() + "/l", InUse: func(context.Context) ([]string, error) { return used, nil },
		Quotas: func(owner string) []records.Quota { return []records.Quota{{Owners: []string{owner}, Bytes: quota}} },
	})
	fresh := func(owner, key string, n int) (records.Environment, error) {
		noise(t, f.upper+"/noise", n)
		src, stops := f.source(), 0
		src.Pause = func(context.Context) error { stops++; return nil }
		src.Resume = func(context.Context) error { stops--; return nil }
		e, err := l.Freeze(t.Context(), Request{Owner: owner, Key: key, Name: key, Source: src})
		noLeftovers(t, l)
		if stops != 0 {
			t.Errorf("%s is left paused", key)
		}
		return e, err
	}
	first, err := fresh("alice", "s1", 1<<20)
	must(t, err)
	second, err := fresh("alice", "s2", 1<<20)
	must(t, err)
	used = []string{second.Digest}
	before := blobs(t, l)
	_, err = fresh("alice", "s3", 4<<20)
	for _, want := range []string{"2.1 MB of the 3.1 MB", "needs more than the 1 MB that are left", "changed are /noise (4.2 MB)", first.Digest[7:19] + " (s1, 1.1 MB)", "envs du"} {
		if !errs.Is(err, errs.OverQuota) || !strings.Contains(told(err), want) {
			t.Errorf("%q lacks %q", told(err), want)
		}
	}
	if strings.Contains(told(err), "write ") || strings.Contains(told(err), second.Digest[7:19]) {
		t.Errorf("it tells of its insides, or what a job uses is to be removed: %s", told(err))
	}
	if after := blobs(t, l); after != before {
		t.Errorf("%d images before, %d after", before, after)
	}
	u, err := l.Usage(t.Context(), "alice")
	if must(t, err); u.Environments != 2 || u.Own != first.Own+second.Own || u.Shared <= 0 || len(u.Bounds) != 1 || u.Bounds[0].Own != u.Own || len(u.Warnings) != 0 {
		t.Errorf("usage %+v", u)
	}
	if _, err := fresh("bob", "s4", 2<<20); err != nil {
		t.Errorf("another user's quota counts: %v", err)
	}
	for full, want := range map[int64]string{u.Own*100/85 + 1: "(84 %)", u.Own*100/96 + 1: "(95 %); a freeze that needs more is refused: remove", u.Own + 1: "(99 %)"} {
		quota = full
		if u, err := l.Usage(t.Context(), "alice"); err != nil || len(u.Warnings) != 1 || !strings.Contains(u.Warnings[0], want) {
			t.Errorf("of %d: %v, %q lacks %q", full, err, u.Warnings, want)
		}
	}
	quota = 200 << 20
	if advice := l.advice(t.Context(), "alice"); strings.Contains(advice, "envs rm") {
		t.Errorf("it advises what is of no help: %s", advice)
	}
	quota = 1
	again, err := l.Freeze(t.Context(), Request{Owner: "bob", Key: "s4", Name: "other", Source: f.source()})
	if err != nil || !again.Unchanged {
		t.Errorf("what he has already: %+v, %v", again, err)
	}
	if _, err := l.Freeze(t.Context(), Request{Owner: "bob", Key: "s5", Source: f.source()}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("over the quota at the beginning: %v", err)
	}
}

// TestGroupQuota: what members have together is bounded, and what two of them have counts once.
func TestGroupQuota(t *testing.T) {
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Quotas: func(owner string) []records.Quota {
		if owner == "eve" {
			return nil
		}
		return []records.Quota{{Owners: []string{owner}, Bytes: 1000}, {Group: "higgs", Owners: []string{"alice", "bob"}, Bytes: 100}}
	}})
	for owner, content := range map[string]string{"alice": "1", "bob": "1", "eve": "2"} {
		put(t, l, owner, "ana", "", "", content)
	}
	own := fakeFrozen("1").Own
	all, err := l.Records.Bounds("alice", "")
	if must(t, err); len(all) != 2 || all[0] != (records.Bound{Group: "", Own: own, Quota: 1000}) || all[1] != (records.Bound{Group: "higgs", Own: own, Quota: 100}) {
		t.Errorf("%+v, an environment has %d", all, own)
	}
	for _, tc := range []struct {
		owner, digest string
		need          int64
		fits          bool
	}{
		{"alice", "", 100 - own, true}, {"alice", "", 101 - own, false}, {"alice", fakeFrozen("1").Digest, 1 << 40, true},
		{"eve", "", 1 << 40, true}, {"alice", fakeFrozen("2").Digest, 1 << 40, false},
	} {
		_, err := l.roomFor(t.Context(), tc.owner, "", tc.digest, tc.need)
		if (err == nil) != tc.fits || err != nil && !strings.Contains(err.Error(), "the group higgs") && tc.need < 1000 {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	if _, err := l.enter(Request{Owner: "bob", Key: "s"}, frozen{Content: records.Content{Digest: fakeFrozen("3").Digest, Own: 100}}); !errs.Is(err, errs.OverQuota) {
		t.Errorf("entered by two at once: %v", err)
	}
}

// TestTooManyFiles: a bomb of small files is refused before anything is kept of them, and it is said where they are.
func TestTooManyFiles(t *testing.T) {
	f := newFixture(t, nastyBase)
	for i := range 400 {
		must(t, write(fmt.Sprintf("%s/opt/data/cache/%d/%d/x", f.upper, i%20, i), "x"))
	}
	must(t, write(f.upper+"/opt/ana/one", "1"))
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", MaxFiles: 500})
	_, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Source: f.source()})
	if text := told(err); !errs.Is(err, errs.OverQuota) || !strings.Contains(text, "at most 500; most are in /opt/data/cache (820)") || !strings.Contains(text, "move it") {
		t.Errorf("%s", text)
	}
	noLeftovers(t, l)
	must(t, os.RemoveAll(f.upper+"/opt/data/cache/0"))
	must(t, os.RemoveAll(f.upper+"/opt/data/cache/1"))
	l.cfg.MaxFiles = 1000
	freeze(t, l, f, nil)
}

// told is all that a user reads of an error.
func told(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if e, ok := errors.AsType[*errs.Error](err); ok {
		text += " -> " + e.Remedy
	}
	return text
}

func blobs(t *testing.T, l *Library) int {
	t.Helper()
	list, err := os.ReadDir(l.dir.Path("blobs"))
	must(t, err)
	return len(list)
}

// TestABaseByAStrangersWordCounts: it could be any bytes, under a tail of next to nothing.
func TestABaseByAStrangersWordCounts(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	var quota int64
	there, here := newPlace(t, "there"), newPlace(t, "here", func(c *Config) {
		c.Quotas = func(owner string) []records.Quota { return []records.Quota{{Owners: []string{owner}, Bytes: quota}} }
	})
	e := there.freeze(t, f, nil)
	s := there.send(t, e.Digest)
	d := s.document(t)
	quota = d.Tail.Size + d.Base.Size - 1
	s.Unsigned = true
	if _, err := here.Adopt(t.Context(), s.Adoption); !errs.Is(err, errs.OverQuota) {
		t.Errorf("a base that nobody vouches for: %v", err)
	}
	noLeftovers(t, here.Library)
	quota++
	for _, owner := range []string{"bob", "carol"} { // whoever brought the base
		s.Owner = owner
		if got, err := here.Adopt(t.Context(), s.Adoption); err != nil || got.Own != quota {
			t.Errorf("%s has %d of %d, %v", owner, got.Own, quota, err)
		}
	}
	here.trusts(t, there, "partner")
	s.Owner = "dora"
	if got, err := here.Adopt(t.Context(), s.Adoption); err != nil || got.Own != d.Tail.Size {
		t.Errorf("a base that a trusted site vouches for: %d of %d, %v", got.Own, d.Tail.Size, err)
	}
}
