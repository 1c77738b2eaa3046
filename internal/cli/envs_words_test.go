package cli

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/images/inventory"
	"slipway/internal/errs"
)

func TestNamesOfEnvironments(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, tt := range []struct {
		e                hubapi.Environment
		name, full, tags string
	}{
		{hubapi.Environment{Mine: true, Name: "fit", Tag: "v1"}, "fit", "fit:v1", "v1"},
		{hubapi.Environment{Mine: true, Name: "fit", Moved: true, Digest: digest}, "fit", "aaaaaaaaaaaa", "(moved)"},
		{hubapi.Environment{Mine: true, Digest: digest}, "", "aaaaaaaaaaaa", ""},
		{hubapi.Environment{Owner: "bob", Name: "fit", Tag: "v1", Moved: true, Digest: digest}, "bob/fit", "bob/aaaaaaaaaaaa", "v1 (moved)"},
		{hubapi.Environment{Owner: "bob", Digest: digest}, "bob/aaaaaaaaaaaa", "bob/aaaaaaaaaaaa", ""},
	} {
		if name, full, tags := ownedName(tt.e), fullName(tt.e), tagWords(tt.e); name != tt.name || full != tt.full || tags != tt.tags {
			t.Errorf("%+v: %q %q %q", tt.e, name, full, tags)
		}
	}
}

func TestRemovedLines(t *testing.T) {
	of := func(digest, name, tag string) hubapi.Environment {
		return hubapi.Environment{Mine: true, Digest: "sha256:" + digest, Name: name, Tag: tag}
	}
	before := []hubapi.Environment{of("bb", "fit", "v1"), of("aa", "fit", "v1"), of("aa", "old", ""), of("cc", "", ""), of("dd", "fit", "v1"), of("dd", "", "")}
	for _, tt := range []struct {
		after []hubapi.Environment
		want  []string
	}{
		{before, nil},
		{[]hubapi.Environment{of("aa", "old", ""), of("cc", "", ""), of("dd", "", "")}, []string{
			"aa is no longer fit:v1; it stays, as old", "bb is no longer fit:v1; the image goes, unless a session, a job or somebody else needs it",
			"dd is no longer fit:v1; it stays, without a name",
		}},
		{before[:3], []string{
			"cc is no longer in your list; the image goes, unless a session, a job or somebody else needs it",
			"dd is no longer fit:v1; the image goes, unless a session, a job or somebody else needs it",
		}},
	} {
		if diff := cmp.Diff(tt.want, removedLines(before, tt.after)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLargest(t *testing.T) {
	now := time.Unix(1000, 0)
	list := []hubapi.Environment{
		{Mine: true, Digest: "sha256:aa", Name: "small", Own: 5, Size: 10, Used: now}, {Mine: true, Digest: "sha256:bb", Name: "big", Tag: "v1", Own: 2000, Used: now},
		{Mine: true, Digest: "sha256:aa", Name: "again", Own: 5, Size: 10, Used: now}, {Mine: true, Digest: "sha256:cc", Own: 7, Used: now},
	}
	want := [][]string{{"bb", "2 kB", "0 B", "0s ago", "big:v1"}, {"cc", "7 B", "0 B", "0s ago", ""}, {"aa", "5 B", "10 B", "0s ago", "small, again"}}
	if diff := cmp.Diff(want, largest(list, now)); diff != "" {
		t.Error(diff)
	}
}

func TestCheckouts(t *testing.T) {
	commit := strings.Repeat("0123456789abcdef", 3)[:40]
	got := checkouts([]inventory.Checkout{
		{Path: "/a", Commit: commit, Branch: "main", Remote: "https://x/y", State: inventory.Clean},
		{Path: "/b", Commit: commit, State: inventory.Modified, Modified: 1, Others: 1200},
		{Path: "/c", State: inventory.Unknown, Why: "its index is damaged"},
		{Path: "/d", Commit: "012", Branch: "x", State: inventory.Unknown},
	})
	want := []string{
		"/a, at 0123456789ab of main, clean, from https://x/y", "/b, at 0123456789ab, 1 file modified, 1,200 not tracked",
		"/c, without a commit, state unknown: its index is damaged", "/d, at 012 of x, unknown",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStripLines(t *testing.T) {
	got := stripLines([]hubapi.StripRule{{Pattern: "/a", Why: "logs"}, {Pattern: "/b", Why: "a cache"}, {Pattern: "/c", Why: "logs"}})
	if diff := cmp.Diff([]string{"a cache:", "  /b", "logs:", "  /a", "  /c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		s := &steps{w: &b, what: "freeze"}
		tell := func(after time.Duration, p hubapi.Progress) {
			time.Sleep(after)
			s.tell(p)
		}
		tell(0, hubapi.Progress{Stage: "a", Message: "looking"})
		tell(time.Second, hubapi.Progress{Stage: "a", Message: "looking", Files: 1})
		tell(0, hubapi.Progress{Stage: "b", Message: "storing\x1b", Files: 5, Bytes: 1000})
		tell(stepEvery, hubapi.Progress{Stage: "b", Message: "storing\x1b", Files: 1204, Bytes: 88_412_160})
		tell(time.Second, hubapi.Progress{Stage: "c", Message: "writing", Bytes: 7})
		tell(0, hubapi.Progress{Stage: "done", Message: "done", Files: 9})
		s.flush()
		want := "freeze: looking: 1 file\nfreeze: storing\uFFFD: 1,204 files, 88 MB\nfreeze: writing: 7 B\n"
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	})
}

// TestOneFindingALine: the files for which a freeze was refused stand below each other, whatever their names.
func TestOneFindingALine(t *testing.T) {
	refused := errs.New(errs.Conflict, "nothing was frozen: 2 files hold secrets").With("do this").
		Naming([]errs.Detail{{Path: "/x", Line: 1, What: "a token"}, {Path: "/a; \" \x1b[31mb", What: "a key"}, {What: "and 3 more"}})
	for err, want := range map[error]string{
		fmt.Errorf("freeze s-1: %w", refused): "slipway: freeze s-1: nothing was frozen: 2 files hold secrets\n" +
			"  /x line 1: a token\n  \"/a; \\\" \\x1b[31mb\": a key\n  and 3 more\n  -> do this\n",
		errs.New(errs.Conflict, "the session is busy: x; y").With("wait"): "slipway: the session is busy: x; y\n  -> wait\n",
		fmt.Errorf("plain: x; y"): "slipway: plain: x; y\n",
	} {
		var b strings.Builder
		if reportOne(&b, err); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}
