package server

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway/internal/devicelogin"
	"slipway/spawner"
)

// post sends a form with a person's token.
func (p *person) post(path, token string, form url.Values) (status int, to, body string) {
	p.t.Helper()
	sent := url.Values{"token": {token}}
	for name, value := range form {
		sent[name] = value
	}
	r := p.do("POST", prefix+path, sent)
	return r.Code, strings.TrimPrefix(r.Header().Get("Location"), prefix), r.Body.String()
}

// read returns a page as its reader sees its words.
func (p *person) read(path string) string {
	p.t.Helper()
	return html.UnescapeString(p.get(prefix + path).Body.String())
}

func sshPagesOf(t *testing.T) *harness {
	t.Helper()
	code := named("s-two", "alice", "two")
	code.Kind = spawner.Code
	return startPages(t, newFake(code, named("s-bob", "bob", "his")), func(c *Config) {
		c.SSH = authority(t, c.Logins)
		c.Hubs[0].Address = "https://slipway.test"
		add(t, c.SSH, "bob", freeKey)
	})
}

func TestSSHPage(t *testing.T) {
	h := sshPagesOf(t)
	p := h.visitor(t, "alice")
	page := p.read("ssh")
	token := formToken(t, page)
	for _, words := range []string{
		"ssh -p 2222 alice@hub.test<", "ssh -p 2222 alice+small@hub.test<", "ssh -p 2222 alice+two@hub.test<", "You have none here", "@cert-authority [hub.test]:2222",
		"Host slipway-two", ">slipway ssh login https://slipway.test<", "(ED25519)", "(RSA)", `href="` + prefix + `ssh"`,
	} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not say %q: %s", words, page)
		}
	}
	if strings.Contains(page, "+his") || strings.Contains(page, "bob") {
		t.Error("the page tells of bob")
	}
	if status, to, body := p.post("ssh/keys", token, url.Values{"key": {alicesKey + "\r\n"}, "comment": {"<b>my laptop"}}); status != http.StatusSeeOther || to != "ssh" {
		t.Fatalf("%d %s %s", status, to, body)
	}
	if page := p.read("ssh"); !strings.Contains(page, "<b>my laptop") || !strings.Contains(page, "never") {
		t.Errorf("%s", page)
	}
	secret := "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZ\n"
	for _, key := range []string{secret, "ssh-ed25519 AAAA<b>", ""} {
		status, _, body := p.post("ssh/keys", token, url.Values{"key": {key}, "comment": {"my <desk>"}})
		if status != 422 || !strings.Contains(body, `aria-invalid="true" aria-describedby="wrong" autofocus`) || formValue(t, body, "comment") != "my <desk>" {
			t.Errorf("%q: %d %s", key, status, body)
		}
		if strings.Contains(body+h.logged.String(), "b3Bl") || strings.Contains(body, "AAAA<") || key == secret && !strings.Contains(body, "PRIVATE") {
			t.Errorf("a private key: %s", body)
		}
	}
	if page := p.read("ssh/keys"); !strings.Contains(page, "my laptop") || strings.Contains(page, `aria-invalid="true"`) {
		t.Errorf("where the browser is then: %s", page)
	}
	bobs := h.visitor(t, "bob")
	form := url.Values{"fingerprint": {alicesPrint}}
	if status, _, _ := bobs.post("ssh/keys/remove", formToken(t, bobs.read("ssh")), form); status != 404 {
		t.Errorf("bob removes it: %d", status)
	}
	if status, _, _ := p.post("ssh/keys/remove", "", form); status != 403 {
		t.Errorf("without the form's token: %d", status)
	}
	if status, _, body := p.post("ssh/keys/remove", token, form); status != http.StatusSeeOther {
		t.Errorf("%d %s", status, body)
	}
	for _, words := range []string{"an ssh key is added", "an ssh key is removed", "user=alice"} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
}

func TestSSHLoginPages(t *testing.T) {
	h := sshPagesOf(t)
	p, bobs := h.visitor(t, "alice"), h.visitor(t, "bob")
	token := formToken(t, p.read("login"))
	begin := func() devicelogin.Login {
		t.Helper()
		l, err := h.cfg.SSH.Begin(devicelogin.Ask{Hub: "main", Key: alicesKey, Computer: "<i>laptop"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	yes, no := begin(), begin()
	if page := p.read("login?code=" + yes.Code); strings.Contains(page, yes.Code) || strings.Contains(page, "Let it in") {
		t.Error("the code is taken from the address")
	}
	if status, _, body := p.post("login", token, url.Values{"code": {"BBBB-BBBB"}}); status != 404 || !strings.Contains(body, "No login waits under this code") ||
		!strings.Contains(body, `name="code" required`) || strings.Contains(body, "BBBB") {
		t.Errorf("a wrong code: %d %s", status, body)
	}
	answer := func(l devicelogin.Login, word string) (int, string) {
		status, to, _ := p.post("login/decide", token, url.Values{"code": {l.Code}, "answer": {word}})
		return status, to
	}
	if status, _ := answer(yes, "yes"); status != 404 {
		t.Errorf("confirmed unseen: %d", status)
	}
	for _, l := range []devicelogin.Login{yes, no} {
		if status, to, body := p.post("login", token, url.Values{"code": {strings.ToLower(l.Code)}}); status != http.StatusSeeOther || to != "login" {
			t.Fatalf("%d %s", status, body)
		}
	}
	page := p.read("login")
	for _, words := range []string{yes.Code, no.Code, "<i>laptop", alicesPrint, "for 12 h", "through a proxy"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not say %q: %s", words, page)
		}
	}
	if page := bobs.read("login"); strings.Contains(page, yes.Code) {
		t.Error("bob sees it")
	}
	for _, tc := range []struct {
		l           devicelogin.Login
		word        string
		status      int
		to, leadsTo string
	}{
		{yes, "perhaps", 422, "", ""}, {yes, "yes", 303, "login/confirmed", "Let in"}, {no, "no", 303, "login/refused", "Refused"}, {yes, "yes", 404, "", ""},
	} {
		if status, to := answer(tc.l, tc.word); status != tc.status || to != tc.to {
			t.Errorf("%s: %d %s", tc.word, status, to)
		}
		if tc.to != "" && !strings.Contains(p.read(tc.to), tc.leadsTo) {
			t.Errorf("%s leads nowhere", tc.to)
		}
	}
	s, err := h.cfg.SSH.Poll(t.Context(), yes.ID)
	if err != nil || s.Pass.Owner.User != "alice" {
		t.Fatalf("%+v, %v", s, err)
	}
	if page := p.read("ssh"); !strings.Contains(page, "all sessions") || !strings.Contains(page, "<i>laptop") {
		t.Errorf("%s", page)
	}
	form := url.Values{"serial": {formValue(t, p.read("ssh"), "serial")}}
	if status, to, body := p.post("ssh/certificates/revoke", token, form); status != http.StatusSeeOther || to != "ssh" || h.cfg.SSH.Holds(s.Pass) {
		t.Errorf("%d %s", status, body)
	}
	for _, words := range []string{"an ssh login is confirmed", "an ssh login is refused", "an ssh certificate is revoked"} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
}

// TestSSHLoginNamesItsHub: where there are several, the page says whose sessions are opened.
func TestSSHLoginNamesItsHub(t *testing.T) {
	for n, pages := range [][]devicelogin.Page{{{Hub: "main", URL: "x"}}, {{Hub: "main", URL: "x"}, {Hub: "school", URL: "y"}}} {
		h := startPages(t, newFake(), func(c *Config) { c.Logins = devicelogin.New(pages); c.SSH = authority(t, c.Logins) })
		p := h.visitor(t, "alice")
		l, err := h.cfg.SSH.Begin(devicelogin.Ask{Login: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		words, several := "at the Hub <strong>main</strong>", n == 1
		if page := p.read("login"); strings.Contains(page, words) != several {
			t.Errorf("%v: %s", pages, page)
		}
		if status, _, body := p.post("login", formToken(t, p.read("login")), url.Values{"code": {l.Code}}); status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, body)
		}
		if page := p.read("login"); strings.Contains(page, words) != several || !strings.Contains(page, "Let it in") {
			t.Errorf("%v: %s", pages, page)
		}
	}
}

func formValue(t *testing.T, page, name string) string {
	t.Helper()
	for _, n := range elements(t, page, "input") {
		if attribute(n, "name") == name {
			return attribute(n, "value")
		}
	}
	t.Fatalf("no form has a %s", name)
	return ""
}

func TestSessionPagesSayTheirLine(t *testing.T) {
	h := sshPagesOf(t)
	p := h.visitor(t, "alice")
	for path, words := range map[string][]string{
		"":               {"ssh -p 2222 alice+two@hub.test<", "Open VS Code"},
		"sessions/s-two": {"ssh -p 2222 alice+two@hub.test<", `data-copy="ssh-s-two"`, "Open VS Code"},
	} {
		page := p.read(path)
		for _, each := range words {
			if !strings.Contains(page, each) {
				t.Errorf("%q does not say %q: %s", path, each, page)
			}
		}
	}
	if page := h.visitor(t, "root").get(prefix + "sessions/s-two").Body.String(); !strings.Contains(page, "Session two") || strings.Contains(page, "By ssh") {
		t.Error("an administrator is told how she would get in as alice")
	}
}

func TestNoSSHPages(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), nil)
	p := h.visitor(t, "alice")
	for _, path := range []string{"", "sessions/s-alice"} {
		if page := p.read(path); strings.Contains(page, "SSH") || strings.Contains(page, "By ssh") {
			t.Errorf("%q speaks of ssh", path)
		}
	}
	if r := p.get(prefix + "ssh"); r.Code != http.StatusNotImplemented || !strings.Contains(r.Body.String(), "ssh.listen") {
		t.Errorf("%d", r.Code)
	}
	if r := p.get(prefix + "ssh/login"); r.Code != http.StatusFound || r.Header().Get("Location") != prefix+"login" {
		t.Errorf("where codes were typed before: %d", r.Code)
	}
	if page := p.read("login"); !strings.Contains(page, `name="code" required`) || strings.Contains(page, "ssh") {
		t.Errorf("codes are typed without ssh, too: %s", page)
	}
}

// TestSSHPlaceNamedLikeAClosedProfile: who names a server like a profile that is not open to her reads nothing of that
// profile.
func TestSSHPlaceNamedLikeAClosedProfile(t *testing.T) {
	h := startPages(t, newFake(named("s-closed", "alice", "closed")), func(c *Config) {
		withRights(c)
		for i := range c.Catalogue.Profiles {
			c.Catalogue.Profiles[i].Description = "about " + c.Catalogue.Profiles[i].Name
		}
		c.SSH = authority(t, c.Logins)
	})
	page := h.visitor(t, "alice").read("ssh")
	for words, want := range map[string]bool{"alice+closed@": true, "your server of this name": true, "about small": true, "about closed": false} {
		if strings.Contains(page, words) != want {
			t.Errorf("the page says %q: %v: %s", words, !want, page)
		}
	}
}
