package environments

import (
	"slices"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// TestNoWorkRunsInWhatANameWasMovedFrom: neither for its owner nor for those with whom only the earlier one is shared.
func TestNoWorkRunsInWhatANameWasMovedFrom(t *testing.T) {
	d := newBlobStore(t)
	early, now := d.freeze("alice", "ana", "v1", "early"), d.freeze("alice", "ana", "v1", "now")
	f := d.environments("higgs")
	d.share("alice", early.Digest)
	if got, err := f.Find(t.Context(), "main", "alice", "ana:v1"); err != nil || got != now.Digest {
		t.Errorf("alice's job runs in %s, %v", got, err)
	}
	for _, ref := range []string{"alice/ana:v1", "alice/ana"} {
		if got, err := f.Find(t.Context(), "main", "bob", ref); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), ref) {
			t.Errorf("bob's job in %s runs in %q, %v", ref, got, err)
		}
	}
	if got, err := f.Find(t.Context(), "main", "bob", early.Digest); err != nil || got != early.Digest {
		t.Errorf("by its digest: %s, %v", got, err)
	}
	bob := spawner.Caller{Hub: "main", User: "bob"}
	list, err := f.List(t.Context(), bob, true)
	if d.must(err); len(list) != 1 || !list[0].Moved || list[0].Digest != early.Digest {
		t.Errorf("bob's list: %+v", list)
	}
	if _, err := f.Get(t.Context(), bob, "alice/none"); err == nil || !strings.Contains(err.Error(), "alice/none") {
		t.Errorf("%v", err)
	}
}

// TestWhatIsAnothersIsSaidToBe: of what is shared with her, a user is told whose it is; of all else that it is not
// there.
func TestWhatIsAnothersIsSaidToBe(t *testing.T) {
	d := newBlobStore(t)
	e := d.freeze("alice", "ana", "v1", "hers")
	f, bob := d.environments("higgs"), spawner.Caller{Hub: "main", User: "bob"}
	attempts := func(ref string) []error {
		_, tag := f.Tag(t.Context(), bob, ref, hubapi.TagRequest{Name: "mine"})
		_, share := f.Share(t.Context(), bob, ref, hubapi.Share{With: "private"})
		_, rm := f.Remove(t.Context(), bob, ref)
		_, history := f.History(t.Context(), bob, ref)
		return []error{tag, share, rm, history}
	}
	for _, kind := range []errs.Kind{errs.NotFound, errs.Forbidden} {
		for _, ref := range []string{"alice/ana:v1", e.Digest} {
			for i, err := range attempts(ref) {
				if !errs.Is(err, kind) || kind == errs.Forbidden && !strings.Contains(err.Error(), "alice's environment") {
					t.Errorf("%s, %d: %v", ref, i, err)
				}
			}
		}
		d.share("alice", "ana:v1")
	}
	alice := spawner.Caller{Hub: "main", User: "alice"}
	if _, err := f.Tag(t.Context(), alice, "alice/ana:v1", hubapi.TagRequest{Name: "early"}); err != nil {
		t.Errorf("her own, with her name: %v", err)
	}
	got, err := f.Details(t.Context(), bob, "alice/ana")
	if err == nil && !slices.Equal(got.Names, []string{"ana:v1", "early"}) {
		t.Errorf("names: %q", got.Names)
	}
	d.must(err)
}

func TestMeantGroup(t *testing.T) {
	groups := []string{"main:higgs", "main:top", "top"}
	for given, want := range map[string]string{"higgs": "main:higgs", "top": "top", "main:top": "main:top", "other": "other", "": ""} {
		if got := meant(groups, "main", given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
