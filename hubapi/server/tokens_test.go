package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/accesstokens"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
)

// accessTokens keeps tokens of whoever is known: all but who is gone.
func accessTokens(t *testing.T) *accesstokens.Tokens {
	t.Helper()
	tokens, err := accesstokens.New(t.Context(), accesstokens.Config{
		Store: &memory{values: map[string]json.RawMessage{}}, Logger: slog.New(slog.DiscardHandler),
		Known: func(_ context.Context, o devicelogin.Owner) (bool, error) { return o.User != "gone", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// beginLogin begins a login as nobody.
func beginLogin(t *testing.T, h *harness) hubapi.DeviceLogin {
	t.Helper()
	l, err := h.client(t, "").BeginLogin(t.Context(), hubapi.DeviceLoginRequest{
		Computer: "<i>laptop", Program: "slipway <1>", Hub: "main",
	})
	if err != nil || l.URL != "http://hub.test"+prefix+"login" || l.Interval < 1 || strings.Contains(l.String(), l.ID) {
		t.Fatalf("%v, %v", l, err)
	}
	return l
}

// status looks what has become of a login.
func status(t *testing.T, h *harness, id string) hubapi.DeviceLoginState {
	t.Helper()
	s, err := h.client(t, "").PollLogin(t.Context(), id)
	if err != nil || strings.Contains(s.String(), "slipway_") {
		t.Fatalf("%v, %v", s, err)
	}
	return s
}

// decide types a login's code on the page and answers.
func (p *person) decide(l hubapi.DeviceLogin, answer string) int {
	p.t.Helper()
	token := formToken(p.t, p.read("login"))
	if code, _, body := p.post("login", token, url.Values{"code": {l.Code}}); code != http.StatusSeeOther {
		p.t.Fatalf("%d %s", code, body)
	}
	code, _, _ := p.post("login/decide", token, url.Values{"code": {l.Code}, "answer": {answer}})
	return code
}

// TestDeviceLogin: a program gets a token of the user who confirms it, once. The token is that user to the API until it
// is revoked, and neither it nor what it is fetched with gets into the log.
func TestDeviceLogin(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/"), lab("s-bob", "bob", "/base/user/bob/")), func(c *Config) { c.Tokens = accessTokens(t) })
	l := beginLogin(t, h)
	if s := status(t, h, l.ID); s.Status != hubapi.LoginPending || s.Token != "" || s.Access != nil {
		t.Errorf("%+v", s)
	}
	if s := status(t, h, l.ID); s.Status != hubapi.LoginSlowDown || s.Interval <= l.Interval {
		t.Errorf("looked at once again: %+v", s)
	}
	p := h.visitor(t, "alice")
	token := formToken(t, p.read("login"))
	p.post("login", token, url.Values{"code": {l.Code}})
	page := p.read("login")
	for _, words := range []string{"<i>laptop", "slipway <1>", "to use Slipway as you", "127.0.0.1", "begun at", l.Code} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not say %q: %s", words, page)
		}
	}
	if code := p.decide(l, "yes"); code != http.StatusSeeOther {
		t.Fatalf("%d", code)
	}
	fresh := beginLogin(t, h) // which has not been looked at too soon
	if code := p.decide(fresh, "yes"); code != http.StatusSeeOther {
		t.Fatalf("%d", code)
	}
	s := status(t, h, fresh.ID)
	if s.Status != hubapi.LoginApproved || s.Access == nil || s.Access.User != "alice" || s.Access.Hub != "main" || !accesstokens.Is(s.Token) {
		t.Fatalf("%+v", s)
	}
	if s := status(t, h, fresh.ID); s.Status != hubapi.LoginExpired || s.Token != "" {
		t.Errorf("fetched twice: %+v", s)
	}
	hers := h.client(t, s.Token)
	if me, err := hers.Me(t.Context()); err != nil || me.User != "alice" || me.Admin {
		t.Errorf("%+v, %v", me, err)
	}
	if _, err := hers.Session(t.Context(), "s-bob"); !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Forbidden) {
		t.Errorf("bob's session: %v", err)
	}
	if c, err := h.Web.Identify(t.Context(), s.Token); err != nil || c.User != "alice" {
		t.Errorf("another door: %+v, %v", c, err)
	}
	if page := p.read("credentials"); !strings.Contains(page, s.Access.ID) || !strings.Contains(page, "<i>laptop") || strings.Contains(page, s.Token) {
		t.Errorf("%s", page)
	}
	if list, err := hers.AccessTokens(t.Context()); err != nil || len(list) != 1 || list[0] != *s.Access {
		t.Errorf("%+v, %v", list, err)
	}
	if err := hers.RevokeAccessToken(t.Context(), s.Access.ID); err != nil {
		t.Error(err)
	}
	if _, err := hers.Me(t.Context()); !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("revoked: %v", err)
	}
	for _, words := range []string{
		`msg="a login for an access token is begun"`, `msg="a login for an access token is confirmed"`, `msg="an access token is issued" token=` + s.Access.ID,
		`msg="an access token is revoked"`, "user=alice",
	} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
	if logged := h.logged.String(); strings.Contains(logged, s.Token) || strings.Contains(logged, fresh.ID) {
		t.Error("the log has a secret")
	}
}

// TestDeviceLoginAttacked: a code is of one user and one use, a form counts with its token alone, and nobody sees or
// revokes another's tokens.
func TestDeviceLoginAttacked(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), func(c *Config) { c.Tokens = accessTokens(t) })
	alice, bobs := h.visitor(t, "alice"), h.visitor(t, "bob")
	l := beginLogin(t, h)
	token := formToken(t, alice.read("login"))
	if page := alice.read("login?code=" + l.Code); strings.Contains(page, l.Code) {
		t.Error("the code is taken from the address")
	}
	if code, _, _ := alice.post("login/decide", token, url.Values{"code": {l.Code}, "answer": {"yes"}}); code != 404 {
		t.Errorf("confirmed unseen: %d", code)
	}
	if code, _, _ := alice.post("login", token, url.Values{"code": {l.Code}}); code != http.StatusSeeOther {
		t.Fatalf("%d", code)
	}
	bobsToken := formToken(t, bobs.read("login"))
	for _, path := range []string{"login", "login/decide"} {
		if code, _, body := bobs.post(path, bobsToken, url.Values{"code": {l.Code}, "answer": {"yes"}}); code != 404 {
			t.Errorf("bob, %s: %d %s", path, code, body)
		}
		if code, _, _ := alice.post(path, bobsToken, url.Values{"code": {l.Code}, "answer": {"yes"}}); code != 403 {
			t.Errorf("with another's form, %s: %d", path, code)
		}
	}
	if s := status(t, h, l.ID); s.Status != hubapi.LoginPending {
		t.Errorf("%+v", s)
	}
	if code := bobs.decide(beginLogin(t, h), "perhaps"); code != 422 {
		t.Errorf("an answer that is none: %d", code)
	}
	refused := beginLogin(t, h)
	if code := bobs.decide(refused, "no"); code != http.StatusSeeOther {
		t.Errorf("%d", code)
	}
	if s := status(t, h, refused.ID); s.Status != hubapi.LoginDenied || s.Token != "" {
		t.Errorf("refused: %+v", s)
	}
	if code, _, body := bobs.post("login", bobsToken, url.Values{"code": {refused.Code}}); code != 404 || !strings.Contains(body, "No login waits") {
		t.Errorf("a code that was used: %d %s", code, body)
	}
	for _, id := range []string{"", "unknown", l.Code} {
		if s := status(t, h, id); s.Status != hubapi.LoginExpired {
			t.Errorf("%q: %+v", id, s)
		}
	}
	ssh, err := h.cfg.Logins.Begin(devicelogin.Ask{Purpose: devicelogin.SSHCertificate})
	if err != nil {
		t.Fatal(err)
	}
	if s := status(t, h, ssh.ID); s.Status != hubapi.LoginExpired {
		t.Errorf("a login by ssh: %+v", s)
	}
	if _, err := h.client(t, "").BeginLogin(t.Context(), hubapi.DeviceLoginRequest{Hub: "nowhere"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("an unknown hub: %v", err)
	}
	made, secret, err := h.cfg.Tokens.Issue(t.Context(), devicelogin.Confirmed{Owner: devicelogin.Owner{Hub: "main", User: "alice"}})
	if err != nil {
		t.Fatal(err)
	}
	bob := h.client(t, "bob-token")
	if list, err := bob.AccessTokens(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("bob sees %+v, %v", list, err)
	}
	if err := bob.RevokeAccessToken(t.Context(), made.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob revokes it: %v", err)
	}
	if code, _, _ := bobs.post("tokens/revoke", bobsToken, url.Values{"id": {made.ID}}); code != 404 {
		t.Errorf("bob revokes it on the page: %d", code)
	}
	if code, _, _ := alice.post("tokens/revoke", "", url.Values{"id": {made.ID}}); code != 403 {
		t.Errorf("without the form's token: %d", code)
	}
	if _, err := h.client(t, secret.Reveal()).Me(t.Context()); err != nil {
		t.Errorf("it is revoked: %v", err)
	}
	if code, to, body := alice.post("tokens/revoke", token, url.Values{"id": {made.ID}}); code != http.StatusSeeOther || to != "credentials" {
		t.Errorf("%d %s", code, body)
	}
	for name, owner := range map[string]devicelogin.Owner{"of a hub of another listener": {Hub: "elsewhere", User: "alice"}, "of a user who is gone": {Hub: "main", User: "gone"}} {
		_, secret, err := h.cfg.Tokens.Issue(t.Context(), devicelogin.Confirmed{Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.client(t, secret.Reveal()).Me(t.Context()); !errs.Is(err, errs.Unauthorized) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokensFromASession: what runs in a session sees and ends no tokens of its owner.
func TestTokensFromASession(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), func(c *Config) { c.Tokens = accessTokens(t) })
	c := h.inside(t, "s-alice")
	if _, err := c.AccessTokens(t.Context()); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v", err)
	}
	if err := c.RevokeAccessToken(t.Context(), "x"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v", err)
	}
}

func TestNoTokens(t *testing.T) {
	h := start(t, newFake(), nil)
	_, errBegin := h.client(t, "").BeginLogin(t.Context(), hubapi.DeviceLoginRequest{})
	_, errPoll := h.client(t, "").PollLogin(t.Context(), "x")
	_, errList := h.client(t, "alice-token").AccessTokens(t.Context())
	for _, err := range []error{errBegin, errPoll, errList, h.client(t, "alice-token").RevokeAccessToken(t.Context(), "x")} {
		if !errs.Is(err, errs.Missing) {
			t.Errorf("%v", err)
		}
	}
}
