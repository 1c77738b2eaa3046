package clientlogin

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
)

func TestFile(t *testing.T) {
	f := In(t.TempDir())
	if _, ok, err := f.Find(""); ok || err != nil {
		t.Errorf("no file yet: %v, %v", ok, err)
	}
	a := Login{URL: "https://a", Token: "secret-a", ID: "1", User: "alice", Hub: "main", Expires: time.Unix(1e9, 0).UTC()}
	b := Login{URL: "https://b", Token: "secret-b"}
	for _, l := range []Login{a, b} {
		if err := f.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
	for url, want := range map[string]Login{"": b, "https://a": a, "https://b": b} {
		if l, ok, err := f.Find(url); l != want || !ok || err != nil {
			t.Errorf("%q: %v, %v, %v", url, l, ok, err)
		}
	}
	if _, ok, _ := f.Find("https://c"); ok {
		t.Error("a login at a service that nobody has logged in at")
	}
	if info, err := os.Stat(f.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	a.Token = "secret-new"
	if err := f.Keep(a); err != nil {
		t.Fatal(err)
	}
	if l, _, _ := f.Find(""); l != a {
		t.Errorf("%v is not the latest", l)
	}
	if err := f.Remove(a.URL); err != nil {
		t.Fatal(err)
	}
	if l, ok, _ := f.Find(""); l != b || !ok {
		t.Errorf("after the removal: %v", l)
	}
	if text := fmt.Sprintf("%v %+v %#v", b, b, b); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

func TestBadFile(t *testing.T) {
	f := In(t.TempDir())
	if err := f.Keep(Login{URL: "https://a"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Find(""); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "0644") {
		t.Errorf("others can read it: %v", err)
	}
	if err := os.WriteFile(f.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Path(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"Keep": f.Keep(Login{}), "Remove": f.Remove("x")} {
		if !errs.Is(err, errs.Invalid) {
			t.Errorf("%s of a damaged file: %v", name, err)
		}
	}
}
