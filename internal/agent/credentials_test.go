package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/internal/agent/control"
)

func bring(t *testing.T, c *credentials, files ...string) error {
	t.Helper()
	var all control.Credentials
	for i := 0; i < len(files); i += 2 {
		all.Files = append(all.Files, control.Credential{Name: files[i], Data: control.Hidden(files[i+1])})
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return c.put(httptest.NewRequest("PUT", "/credentials", bytes.NewReader(b)))
}

func held(t *testing.T, c *credentials) string {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(c.dir, e.Name()))
		info, _ := e.Info()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v: %v", e.Name(), info.Mode(), err)
		}
		all = append(all, e.Name()+"="+string(b))
	}
	return strings.Join(all, " ")
}

func TestCredentialsComeAndGo(t *testing.T) {
	c := newCredentials(configIn(t.TempDir()))
	for _, step := range []struct {
		bring []string
		held  string
	}{
		{[]string{"token", "one", "token-eos", "narrow"}, "token=one token-eos=narrow"},
		{[]string{"token", "two", "token-eos", "narrow"}, "token=two token-eos=narrow"},
		{[]string{"token", "two"}, "token=two"},
		{nil, ""},
	} {
		if err := bring(t, c, step.bring...); err != nil || held(t, c) != step.held {
			t.Errorf("%q, want %q: %v", held(t, c), step.held, err)
		}
	}
	if info, err := os.Stat(c.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	c.end()
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("the agent has ended, and its user's credentials are still there")
	}
}

func TestTheUsersOwnProxyStays(t *testing.T) {
	c := newCredentials(configIn(t.TempDir()))
	if err := bring(t, c, "token", "one"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "x509"), []byte("mine"), 0o600); err != nil { // voms-proxy-init
		t.Fatal(err)
	}
	if err := bring(t, c, "token", "two"); err != nil || held(t, c) != "token=two x509=mine" {
		t.Errorf("%q, %v", held(t, c), err)
	}
	if err := bring(t, c, "token", "two", "x509", "theirs"); err != nil || held(t, c) != "token=two x509=theirs" {
		t.Errorf("%q, %v", held(t, c), err)
	}
}

// TestCredentialsThatTheUserHasSpoilt: what is put again, be it the same, is written again, and what is missing too.
func TestCredentialsThatTheUserHasSpoilt(t *testing.T) {
	c := newCredentials(configIn(t.TempDir()))
	send := func(mark int64) {
		t.Helper()
		b, err := json.Marshal(control.Credentials{Files: []control.Credential{{Name: "x509", Data: "proxy", Mark: mark}, {Name: "token", Data: "one", Mark: 1}}})
		if err == nil {
			err = c.put(httptest.NewRequest("PUT", "/credentials", bytes.NewReader(b)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	if err := errors.Join(os.WriteFile(filepath.Join(c.dir, "x509"), []byte("spoilt"), 0o600), os.Remove(filepath.Join(c.dir, "token"))); err != nil {
		t.Fatal(err)
	}
	if send(1); held(t, c) != "token=one x509=spoilt" {
		t.Errorf("%q: what is missing comes back, and what is the user's stays", held(t, c))
	}
	if send(2); held(t, c) != "token=one x509=proxy" {
		t.Errorf("%q after it was put again", held(t, c))
	}
}

func TestCredentialsWithNamesThatLeadElsewhere(t *testing.T) {
	c := newCredentials(configIn(t.TempDir()))
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".hidden", "A", "a\nb", strings.Repeat("a", 101)} {
		if err := bring(t, c, "token", "one", name, "x"); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "token")); err == nil {
		t.Error("half of a refused request was done")
	}
	err := c.put(httptest.NewRequest("PUT", "/credentials", strings.NewReader(`{"files":[{"name":"token","data":["sesame"]}]}`)))
	if err == nil || strings.Contains(err.Error(), "sesame") {
		t.Error(err)
	}
}

func TestNobodySeesHalfACredential(t *testing.T) {
	c := newCredentials(configIn(t.TempDir()))
	a, b := strings.Repeat("a", 3000), strings.Repeat("b", 3000)
	if err := bring(t, c, "token", a); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	stop := make(chan struct{})
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got, err := os.ReadFile(filepath.Join(c.dir, "token")); err != nil || string(got) != a && string(got) != b {
				t.Errorf("%d bytes, %v", len(got), err)
				return
			}
		}
	})
	for i := range 500 {
		if err := bring(t, c, "token", []string{a, b}[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	reader.Wait()
}

func TestTheUsualPlaceLeadsToTheProxy(t *testing.T) {
	c := newCredentials(configIn(t.TempDir()))
	at := func() string { to, _ := os.Readlink(c.usual); return to }
	mine := func(text string) { // as voms-proxy-init does
		t.Helper()
		if err := errors.Join(ignore(os.Remove(c.usual), fs.ErrNotExist), os.WriteFile(c.usual, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string { b, _ := os.ReadFile(c.usual); return string(b) }
	for _, step := range []struct {
		name, mine string
		bring      []string
		link       bool
		text       string
	}{
		{"without a proxy", "", []string{"token", "t"}, false, ""},
		{"one comes", "", []string{"x509", "one"}, true, "one"},
		{"one is renewed", "", []string{"x509", "two"}, true, "two"},
		{"she makes her own", "hers", []string{"x509", "three"}, false, "hers"},
		{"hers is put", "four", []string{"x509", "four"}, true, "four"},
		{"it is removed", "", []string{"token", "t"}, false, ""},
		{"hers stays", "hers", []string{"x509", "five"}, false, "hers"},
		{"hers stays when that goes", "", nil, false, "hers"},
	} {
		if step.mine != "" {
			mine(step.mine)
		}
		if err := bring(t, c, step.bring...); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if linked := at() == filepath.Join(c.dir, "x509"); linked != step.link || read() != step.text {
			t.Errorf("%s: it leads to %q and says %q", step.name, at(), read())
		}
	}
	if err := errors.Join(os.Remove(c.usual), bring(t, c, "x509", "six")); err != nil || read() != "six" {
		t.Errorf("%q, %v", read(), err)
	}
	c.end()
	if _, err := os.Lstat(c.usual); err == nil {
		t.Error("the agent has ended, and its link is still there")
	}
}

func TestOnlyAProxyThatIsThereIsNamed(t *testing.T) {
	cfg := configIn(t.TempDir())
	c := newCredentials(cfg)
	named := func(app control.Env) string {
		t.Helper()
		env, err := environ(cfg, control.App{Env: app}, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		return variable(env, control.ProxyFileEnv)
	}
	if got := named(nil); got != "" {
		t.Errorf("without a proxy %q is named", got)
	}
	if err := bring(t, c, "x509", "one"); err != nil {
		t.Fatal(err)
	}
	if got := named(nil); got != filepath.Join(cfg.TokensDir, "x509") {
		t.Errorf("%q is named", got)
	}
	if got := named(control.Env{control.ProxyFileEnv: "/her/own"}); got != "/her/own" {
		t.Errorf("instead of her own %q is named", got)
	}
}
