package jobfiles_test

import (
	"slices"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner/jobfiles"
)

func TestWanted(t *testing.T) {
	files := named("a.root", "b.root", "core.123", "slipway-result.pkl", "exact[1]")
	for out, want := range map[string]struct{ come, missing string }{
		"":                      {"a.root b.root core.123 slipway-result.pkl exact[1]", ""},
		"*.root exact[1]":       {"a.root b.root slipway-result.pkl exact[1]", ""},
		"*.root hist.pdf *.png": {"a.root b.root slipway-result.pkl", "hist.pdf *.png"},
		"a.root":                {"a.root slipway-result.pkl", ""},
		"hist.pdf":              {"slipway-result.pkl", "hist.pdf"},
	} {
		come, missing := jobfiles.Wanted(strings.Fields(out), files)
		var names []string
		for _, f := range come {
			names = append(names, f.Name)
		}
		if strings.Join(names, " ") != want.come || strings.Join(missing, " ") != want.missing {
			t.Errorf("%q: %q, missing %q", out, names, missing)
		}
	}
}

func TestCheckPatterns(t *testing.T) {
	fits := slices.Repeat([]string{strings.Repeat("x", 63)}, 64) // 4 KiB, with one more for each
	for _, good := range [][]string{nil, {"*.root", "hist.pdf", "exact[1]"}, slices.Repeat([]string{"x"}, 100), fits} {
		if err := jobfiles.CheckPatterns(good); err != nil {
			t.Errorf("%.20q: %v", good, err)
		}
	}
	for _, bad := range [][]string{
		{""}, {"a/b"}, {"["}, {"."}, {".."}, {strings.Repeat("x", 1000)}, {"a\nb"},
		slices.Repeat([]string{"x"}, 101), append(fits, "x"),
	} {
		if err := jobfiles.CheckPatterns(bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestCheckNames(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "a.root": true, "": false, ".a": false, "a/b": false, "..": false, "a\nb": false,
	} {
		if err := jobfiles.CheckInputName(name); (err == nil) != good || err != nil && !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for digest, good := range map[string]bool{
		digestOf("x"): true, "": false, "sha256:../../x": false,
		strings.ToUpper(digestOf("x")): false, digestOf("x") + "0": false,
	} {
		if err := jobfiles.CheckDigest(digest); (err == nil) != good || err != nil && !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v", digest, err)
		}
	}
}
