package xrdtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fails reports whether an error says these words.
func fails(err error, words string) bool { return err != nil && strings.Contains(err.Error(), words) }

func TestCacheReadsFromOrigin(t *testing.T) {
	origin := Origin(t)
	cache := Cache(t, origin)
	origin.Put("a/file", "content")
	to := filepath.Join(t.TempDir(), "got")
	for _, from := range []string{origin.URL, cache.URL} {
		if out, err := Copy(t, nil, from+"//data/a/file", to); err != nil {
			t.Fatalf("%s: %v %s", from, err, out)
		}
		if got, err := os.ReadFile(to); string(got) != "content" {
			t.Errorf("%s gave %q, %v", from, got, err)
		}
	}
	if _, err := Copy(t, nil, to, cache.URL+"//data/written"); !fails(err, "[3025]") {
		t.Errorf("a write through the cache: %v", err)
	}
	if _, err := os.Stat(filepath.Join(origin.Data, "written")); err == nil {
		t.Error("it has come to the origin")
	}
	if _, err := Copy(t, nil, to, origin.URL+"//data/written"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(origin.Data, "written")); err != nil {
		t.Error(err)
	}
}

func TestTokensOpenWhatTheySay(t *testing.T) {
	trust := NewTrust(t)
	origin := trust.TokenOrigin()
	cache := trust.TokenCache(origin)
	origin.Put("alice/file", "hers")
	origin.Put("bob/file", "his")
	to := filepath.Join(t.TempDir(), "got")
	hers := trust.Token("alice", "storage.read:/alice storage.create:/alice storage.modify:/alice", time.Hour)
	for _, c := range []struct{ name, token, from, to, words string }{
		{"nobody's", "", origin.URL + "//data/alice/file", to, "Auth failed"},
		{"hers", hers, origin.URL + "//data/alice/file", to, ""},
		{"hers, of the cache", hers, cache.URL + "//data/alice/file", to, ""},
		{"his", hers, origin.URL + "//data/bob/file", to, "[3010]"},
		{"his, of the cache", hers, cache.URL + "//data/bob/file", to, "[3010]"},
		{"expired", trust.Token("alice", "storage.read:/alice", -time.Second), origin.URL + "//data/alice/file", to, "Auth failed"},
		{"written", hers, to, origin.URL + "//data/alice/new", ""},
		{"written by the cache", hers, to, cache.URL + "//data/alice/other", "[3025]"},
		{"written to his", hers, to, origin.URL + "//data/bob/new", "[3010]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := trust.Env()
			if c.token != "" {
				file := filepath.Join(t.TempDir(), "token")
				Write(t, file, c.token, 0o600)
				env = append(env, "BEARER_TOKEN_FILE="+file)
			}
			_, err := Copy(t, env, c.from, c.to)
			if c.words == "" && err != nil || c.words != "" && !fails(err, c.words) {
				t.Errorf("want %q, have %v\n%s%s", c.words, err, origin.Log(), cache.Log())
			}
		})
	}
}
