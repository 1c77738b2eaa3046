package images

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/images/pin"
	"slipway/images/records"
	"slipway/internal/errs"
)

func TestRemove(t *testing.T) {
	for ref, want := range map[string]struct {
		names []string // that are left, of all digests
		kind  errs.Kind
	}{
		"ana:v1":  {[]string{"ana:v2", "other"}, 0},
		"ana:v2":  {[]string{"ana:v1", "ana:v1", "other"}, 0},
		"other":   {[]string{"ana:v1", "ana:v1", "ana:v2"}, 0},
		"ana":     {nil, errs.Invalid},
		"ana:v3":  {nil, errs.NotFound},
		"111111":  {[]string{"ana:v1", "ana:v2"}, 0},
		"nothing": {nil, errs.NotFound},
	} {
		t.Run(ref, func(t *testing.T) {
			l := newLibrary(t)
			put(t, l, "alice", "ana", "v1", "", "1")
			put(t, l, "alice", "other", "", "", "1")
			put(t, l, "alice", "ana", "v2", "", "2")
			put(t, l, "alice", "ana", "v1", "", "3")
			put(t, l, "bob", "ana", "v1", "", "1")
			_, err := l.Records.Remove("alice", ref)
			if want.names == nil {
				if !errs.Is(err, want.kind) {
					t.Errorf("err = %v", err)
				}
				return
			}
			must(t, err)
			all, err := l.Records.List("alice")
			must(t, err)
			var left []string
			for _, e := range all {
				left = append(left, strings.TrimSuffix(e.Name+":"+e.Tag, ":"))
			}
			if slices.Sort(left); !slices.Equal(left, want.names) {
				t.Errorf("left are %q, want %q", left, want.names)
			}
			if _, err := l.Records.Get("bob", "ana:v1"); err != nil {
				t.Errorf("bob's: %v", err)
			}
		})
	}
}

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// TestSweep: what a record, a job or a session needs stays; so does what was made a moment ago.
func TestSweep(t *testing.T) {
	f := newFixture(t, nastyBase)
	now := &clock{time.Now()}
	var used []string
	var unknown error
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Now: now.now, Keep: time.Hour, InUse: func(context.Context) ([]string, error) { return used, unknown }})
	frozen := func(key, content string) records.Environment {
		long := time.Unix(1e9, 0)
		must(t, os.WriteFile(f.upper+"/mark", []byte(content), 0o644), os.Chtimes(f.upper+"/mark", long, long), os.Chtimes(f.upper, long, long))
		return freeze(t, l, f, func(r *Request) { r.Key = key })
	}
	plain, job := frozen("s1", "1"), frozen("s2", "2")
	must(t, os.WriteFile(f.upper+"/mark", []byte("3"), 0o644))
	named := freeze(t, l, f, func(r *Request) { r.Key, r.Name = "s3", "ana" })
	there := func() (out []string) {
		for _, e := range []records.Environment{plain, job, named} {
			if _, err := l.Ready(t.Context(), e.Digest); err == nil {
				out = append(out, e.Digest)
			}
		}
		return out
	}
	must(t, l.tidy(t.Context()))
	if got := there(); len(got) != 3 {
		t.Fatalf("at once only %q are left", got)
	}
	_, err := l.Records.Remove("alice", plain.Digest)
	must(t, err)
	swept, err := l.Sweep(t.Context(), true)
	if w := swept.Waiting; err != nil || len(swept.Files) > 0 || w.Environments != 1 || w.Bytes < plain.Size || w.Until.Before(now.at) || w.Until.After(now.at.Add(pin.Grace+time.Minute)) {
		t.Errorf("of what was just frozen: %+v, %v", swept, err)
	}
	now.at = now.at.Add(2 * time.Hour)
	used, unknown = []string{job.Digest}, errors.New("the engine does not answer")
	if err := l.tidy(t.Context()); err == nil || len(there()) != 3 {
		t.Errorf("while it is not known what is in use: %v, %q are left", err, there())
	}
	unknown = nil
	must(t, l.Records.Expire(map[string]bool{job.Digest: true}, l.cfg.Keep))
	swept, err = l.Sweep(t.Context(), true)
	if must(t, err); !slices.Equal(swept.Environments, []string{plain.Digest}) || len(there()) != 3 {
		t.Errorf("dry: %+v, %q are left", swept, there())
	}
	must(t, l.tidy(t.Context()))
	if got := there(); !slices.Equal(got, []string{job.Digest, named.Digest}) {
		t.Errorf("left are %q", got)
	}
	_, err = l.Records.SetShare(records.Viewer{Owner: "alice"}, job.Digest, records.Share{With: records.Public})
	must(t, err)
	used, now.at = nil, now.at.Add(50*time.Minute)
	must(t, l.tidy(t.Context()))
	now.at = now.at.Add(2 * time.Hour)
	if must(t, l.tidy(t.Context())); len(there()) != 2 {
		t.Errorf("shared and named ones expire: %q", there())
	}
	_, err = l.Records.SetShare(records.Viewer{Owner: "alice"}, job.Digest, records.Share{With: records.Private})
	must(t, err, l.tidy(t.Context()))
	if got := there(); !slices.Equal(got, []string{named.Digest}) {
		t.Errorf("when nobody uses it any more: %q", got)
	}
	if again := frozen("s1", "1"); again.Digest != plain.Digest || again.Unchanged {
		t.Errorf("frozen again it is %+v", again)
	}
}

func TestShare(t *testing.T) {
	l := newLibrary(t)
	put(t, l, "alice", "ana", "v1", "", "1")
	put(t, l, "alice", "secret", "", "", "2")
	alice, bob, eve := records.Viewer{Owner: "alice", Groups: []string{"higgs"}}, records.Viewer{Owner: "bob", Groups: []string{"higgs", "top"}}, records.Viewer{Owner: "eve"}
	sees := func(v records.Viewer) bool {
		_, byName := l.Records.Find(v, "alice", "ana:v1")
		_, byDigest := l.Records.Find(v, "", fakeFrozen("1").Digest)
		list, err := l.Records.Shared(v)
		must(t, err)
		if (byName == nil) != (byDigest == nil) || (byName == nil) != (len(list) == 1) {
			t.Errorf("%s: by name %v, by digest %v, listed %d", v.Owner, byName, byDigest, len(list))
		}
		return byName == nil
	}
	for _, tc := range []struct {
		share    records.Share
		bob, eve bool
	}{{records.Share{With: records.Private}, false, false}, {records.Share{With: records.Group, Group: "higgs"}, true, false}, {records.Share{With: records.Public}, true, true}, {records.Share{With: records.Private}, false, false}} {
		if _, err := l.Records.SetShare(alice, "ana:v1", tc.share); err != nil {
			t.Fatal(err)
		}
		if b, e := sees(bob), sees(eve); b != tc.bob || e != tc.eve {
			t.Errorf("%+v: bob %v, eve %v", tc.share, b, e)
		}
	}
	for _, s := range []records.Share{{With: "all"}, {With: records.Group, Group: "top"}, {With: records.Group}, {With: records.Public, Group: "higgs"}} {
		if _, err := l.Records.SetShare(alice, "ana:v1", s); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := l.Records.SetShare(bob, "ana:v1", records.Share{With: records.Public}); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob shares alice's: %v", err)
	}
	if _, err := l.Records.Find(eve, "alice", "secret"); !errs.Is(err, errs.NotFound) {
		t.Errorf("what was never shared: %v", err)
	}
}
