package server

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func TestCredentialsOverTheAPI(t *testing.T) {
	fake := newCredentials("main:alice")
	h := start(t, newFake(), fake.with)
	alice := h.client(t, "alice-token")
	list, err := alice.Credentials(t.Context(), "")
	if err != nil || list.User != "alice" || len(list.Credentials) != 2 || list.Credentials[0].Subject != "sub-of-main:alice" || !list.Proxies || list.Issuers[0] != "wlcg" {
		t.Fatalf("%+v, %v", list, err)
	}
	if c, err := alice.RenewCredential(t.Context(), "wlcg"); err != nil || c.Name != "wlcg" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := alice.PutProxy(t.Context(), hubapi.ProxyRequest{Proxy: "good, of another"}); err != nil {
		t.Errorf("from outside: %v", err)
	}
	if c, err := alice.PutProxy(t.Context(), hubapi.ProxyRequest{Proxy: "good " + proxySecret}); err != nil || c.Subject != "/CN=put by main:alice" {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = alice.PutProxy(t.Context(), hubapi.ProxyRequest{Proxy: proxySecret})
	if e, ok := err.(*errs.Error); !ok || e.Field != "proxy" || e.Remedy == "" {
		t.Errorf("%v", err)
	}
	if c, err := alice.GiveRefreshToken(t.Context(), "wlcg", hubapi.RefreshTokenRequest{RefreshToken: refreshSecret}); err != nil || c.From != "given" {
		t.Errorf("%+v, %v", c, err)
	}
	fake.unsaid = errs.New(errs.Unavailable, "it is removed here, but its issuer did not revoke it").With("revoke it there")
	if gone, err := alice.RemoveCredential(t.Context(), "wlcg", ""); err != nil || gone.Note != "It is removed here, but its issuer did not revoke it. Revoke it there." {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, err := alice.RemoveCredential(t.Context(), "wlcg", ""); !errs.Is(err, errs.NotFound) {
		t.Errorf("once more: %v", err)
	}
	logged := h.logged.String()
	for _, words := range []string{`msg="a proxy is put" subject="/CN=put by main:alice"`, `msg="a credential is renewed"`, `msg="a refresh token is given"`, `msg="a credential is removed"`, "user=alice"} {
		if !strings.Contains(logged, words) {
			t.Errorf("the log does not say %q", words)
		}
	}
	if strings.Contains(logged, "hidden") {
		t.Error("a secret is in the log")
	}
}

func TestCredentialsOfOthers(t *testing.T) {
	fake := newCredentials("main:alice")
	h := start(t, newFake(), fake.with)
	bob, root := h.client(t, "bob-token"), h.client(t, "root-token")
	if list, err := bob.Credentials(t.Context(), ""); err != nil || len(list.Credentials) != 0 {
		t.Errorf("bob sees %+v, %v", list, err)
	}
	if _, err := bob.Credentials(t.Context(), "alice"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("bob asks for hers: %v", err)
	}
	if _, err := bob.RemoveCredential(t.Context(), "wlcg", "alice"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("bob removes hers: %v", err)
	}
	if list, err := root.Credentials(t.Context(), "alice"); err != nil || list.User != "alice" || len(list.Credentials) != 2 {
		t.Errorf("root sees %+v, %v", list, err)
	}
	if _, err := root.RenewCredential(t.Context(), "wlcg"); !errs.Is(err, errs.NotFound) {
		t.Errorf("root renews its own: %v", err)
	}
	for _, request := range []string{"POST /credentials/wlcg/renew?user=alice", "POST /credentials/wlcg/login?user=alice"} {
		method, path, _ := strings.Cut(request, " ")
		req, _ := http.NewRequest(method, h.front.URL+hubapi.Base+path, nil)
		req.Header.Set("Authorization", "token root-token")
		if resp, err := http.DefaultClient.Do(req); err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
	}
	fake.mu.Lock()
	for _, asked := range fake.asked {
		if strings.Contains(asked, "main:alice") {
			t.Errorf("the wallet was asked: %s", asked)
		}
	}
	if fake.grants["grant-of-main:alice"] != "" {
		t.Error("root logs alice in")
	}
	fake.mu.Unlock()
	if _, err := root.RemoveCredential(t.Context(), "wlcg", "alice"); err != nil {
		t.Error(err)
	}
	for _, words := range []string{`msg="credentials of another user are listed" of=alice`, `msg="a credential is removed" credential=wlcg of=alice`} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
	if _, err := h.client(t, spawnerToken).Credentials(t.Context(), "alice"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("the Spawner: %v", err)
	}
}

func TestCredentialsFromWithin(t *testing.T) {
	fake := newCredentials("main:alice", "main:bob")
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice")), fake.with)
	for _, test := range []struct {
		id            string
		request, body string
		status        int
	}{
		{"s-alice", "GET /credentials", "", 200},
		{"s-alice", "PUT /credentials/x509", `{"proxy":"good"}`, 200},
		{"s-alice", "PUT /credentials/x509", `{"proxy":"good, of another"}`, 403},
		{"s-alice", "GET /credentials?user=bob", "", 403},
		{"s-alice", "DELETE /credentials/x509?user=bob", "", 403},
		{"s-alice", "DELETE /credentials/x509", "", 403},
		{"s-alice", "POST /credentials/wlcg/renew", "", 403},
		{"s-alice", "POST /credentials/wlcg/login", "", 403},
		{"s-alice", "PUT /credentials/wlcg/refresh-token", `{"refresh_token":"x"}`, 403},
		{"s-alice", "GET /credential-logins/x", "", 403},
		{"j-alice", "GET /credentials", "", 403},
		{"j-alice", "PUT /credentials/x509", `{"proxy":"good"}`, 403},
	} {
		status, body := raw(t, agentServer(t, h.AgentAPI(), test.id), strings.Replace(test.request, " ", " "+hubapi.Base, 1)+
			fmt.Sprintf(" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(test.body), test.body))
		if status != test.status || strings.Contains(body, "main:bob") {
			t.Errorf("%s by %s: %d %s", test.request, test.id, status, body)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	h := start(t, newFake(), nil)
	if _, err := h.client(t, "alice-token").Credentials(t.Context(), ""); !errs.Is(err, errs.Missing) {
		t.Errorf("%v", err)
	}
}

func TestLoginAtAnIssuer(t *testing.T) {
	fake := newCredentials()
	h := start(t, newFake(), fake.with)
	alice, bob := h.client(t, "alice-token"), h.client(t, "bob-token")
	begun, err := alice.BeginCredentialLogin(t.Context(), "wlcg")
	if err != nil || begun.Code != "ABCD-<EF>" || begun.Issuer != "wlcg" {
		t.Fatalf("%+v, %v", begun, err)
	}
	if _, err := bob.AwaitCredentialLogin(t.Context(), begun.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob looks at it: %v", err)
	}
	fake.grant <- nil
	state, err := alice.AwaitCredentialLogin(t.Context(), begun.ID)
	if err != nil || state.Pending || state.Credential == nil || state.Credential.Subject != "logged in as main:alice" {
		t.Errorf("%+v, %v", state, err)
	}
	begun, err = alice.BeginCredentialLogin(t.Context(), "wlcg")
	if err != nil {
		t.Fatal(err)
	}
	fake.grant <- errs.New(errs.Forbidden, "you have refused it")
	if _, err := alice.AwaitCredentialLogin(t.Context(), begun.ID); !errs.Is(err, errs.Forbidden) {
		t.Errorf("refused: %v", err)
	}
	if _, err := alice.BeginCredentialLogin(t.Context(), "nobody"); !errs.Is(err, errs.Invalid) {
		t.Errorf("no issuer: %v", err)
	}
	if _, line, _ := strings.Cut(h.logged.String(), `msg="a login at an issuer is confirmed"`); !strings.Contains(line, `by="alice of main" user=alice hub=main door=issuer principal=main:alice audit=done`) {
		t.Error("the log does not say that she has confirmed it")
	}
}

func TestLoginsEndWithTheServer(t *testing.T) {
	fake := newCredentials()
	h := start(t, newFake(), fake.with)
	if _, err := h.client(t, "alice-token").BeginCredentialLogin(t.Context(), "wlcg"); err != nil {
		t.Fatal(err)
	}
	h.Web.End()
	ended := make(chan struct{})
	go func() { h.Web.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("somebody waits on")
	}
}

// send posts a file in a form.
func (p *person) sendFile(path, token, file string) (status int, to, body string) {
	p.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	_ = form.WriteField("token", token)
	part, _ := form.CreateFormFile("file", "x509up_u1000")
	_, _ = part.Write([]byte(file))
	_ = form.Close()
	p.send = func(r *http.Request) {
		sent, _ := http.NewRequestWithContext(context.Background(), "POST", r.URL.String(), &b)
		r.Body, r.ContentLength = sent.Body, sent.ContentLength
		r.Header.Set("Content-Type", form.FormDataContentType())
		r.Header.Set("Origin", "http://hub.test")
	}
	defer func() { p.send = nil }()
	r := p.do("POST", prefix+path, nil)
	return r.Code, strings.TrimPrefix(r.Header().Get("Location"), prefix), r.Body.String()
}

func TestCredentialsPage(t *testing.T) {
	fake := newCredentials("main:alice")
	h := startPages(t, newFake(), func(c *Config) {
		fake.with(c)
		c.Hubs[0].Address = "https://slipway.test"
	})
	p, bobs := h.visitor(t, "alice"), h.visitor(t, "bob")
	page := p.read("credentials")
	token := formToken(t, page)
	for _, words := range []string{
		"sub-of-main:alice", "https://issuer.test", "storage.read:/", "50 min left", "1 h 30 min left", "it ends soon: put a new one", "/atlas/Role=NULL", "member of atlas",
		"SLIPWAY_URL=https://slipway.test SLIPWAY_TOKEN=... slipway proxy put", `href="` + prefix + `credentials"`, "Log in again",
	} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not say %q: %s", words, page)
		}
	}
	if page := bobs.read("credentials"); strings.Contains(page, "alice") || !strings.Contains(page, "You have none here") || !strings.Contains(page, "Log in at wlcg") {
		t.Errorf("bob's: %s", page)
	}
	if status, _, _ := p.sendFile("credentials/proxy", "", "good"); status != 403 {
		t.Errorf("without the form's token: %d", status)
	}
	if status, _, body := p.sendFile("credentials/proxy", token, proxySecret); status != 422 || !strings.Contains(body, "The proxy has expired on 1 May 2026. Make a new one.") ||
		!strings.Contains(body, `aria-invalid="true" aria-describedby="wrong"`) || strings.Contains(body, "MIIhidden") {
		t.Errorf("a bad one: %d %s", status, body)
	}
	if status, _, body := p.sendFile("credentials/proxy", token, strings.Repeat("x", 256<<10)); status != 422 || !strings.Contains(body, "cannot be read") {
		t.Errorf("a large one: %d", status)
	}
	if status, _, body := p.post("credentials/proxy", token, nil); status != 422 || !strings.Contains(body, "No file was chosen") {
		t.Errorf("none: %d %s", status, body)
	}
	if status, to, body := p.sendFile("credentials/proxy", token, "good "+proxySecret); status != http.StatusSeeOther || to != "credentials" {
		t.Errorf("%d %s %s", status, to, body)
	}
	if status, _, _ := p.post("credentials/wlcg/renew", token, nil); status != http.StatusSeeOther {
		t.Errorf("renew: %d", status)
	}
	if status, _, _ := bobs.post("credentials/wlcg/remove", formToken(t, bobs.read("credentials")), nil); status != 404 {
		t.Errorf("bob removes hers: %d", status)
	}
	fake.unsaid = errs.New(errs.Missing, "its issuer has no way to revoke").With("remove it there")
	if status, _, body := p.post("credentials/wlcg/remove", token, nil); status != 200 || !strings.Contains(body, "Its issuer has no way to revoke. Remove it there.") || strings.Contains(body, "sub-of") {
		t.Errorf("removed: %d %s", status, body)
	}
	fake.unsaid = nil
	if status, to, _ := p.post("credentials/x509/remove", token, nil); status != http.StatusSeeOther || to != "credentials" {
		t.Errorf("removed: %d", status)
	}
	for _, words := range []string{`msg="a proxy is put"`, `msg="a credential is renewed"`, `msg="a credential is removed"`, "user=alice"} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
	if strings.Contains(h.logged.String(), "hidden") {
		t.Error("a secret is in the log")
	}
}

func TestLoginPage(t *testing.T) {
	fake := newCredentials()
	h := startPages(t, newFake(), fake.with)
	p, bobs := h.visitor(t, "alice"), h.visitor(t, "bob")
	token := formToken(t, p.read("credentials"))
	begin := func() string {
		t.Helper()
		status, to, body := p.post("credentials/wlcg/login", token, nil)
		if status != http.StatusSeeOther || !strings.HasPrefix(to, "credentials/logins/") {
			t.Fatalf("%d %s %s", status, to, body)
		}
		return to
	}
	wait := func(to string) {
		t.Helper()
		testenv.Until(t, "the login has an end", testenv.Hang, func() bool { return p.get(prefix+to).Code != http.StatusOK })
	}
	to := begin()
	raw := p.get(prefix + to).Body.String()
	if !strings.Contains(raw, "ABCD-&lt;EF&gt;") || !strings.Contains(raw, `rel="noopener noreferrer"`) || !strings.Contains(raw, "https://issuer.test/device?%3cb%3e") {
		t.Errorf("%s", raw)
	}
	if r := bobs.get(prefix + to); r.Code != 404 || strings.Contains(r.Body.String(), "ABCD") {
		t.Errorf("bob looks at it: %d", r.Code)
	}
	fake.grant <- nil
	wait(to)
	if r := p.get(prefix + to); r.Code != http.StatusSeeOther || r.Header().Get("Location") != prefix+"credentials" {
		t.Errorf("confirmed: %d", r.Code)
	}
	to = begin()
	fake.grant <- errs.New(errs.Forbidden, "you have refused it").With("begin once more")
	wait(to)
	if r := p.get(prefix + to); r.Code != 403 || !strings.Contains(r.Body.String(), "You have refused it.") {
		t.Errorf("refused: %d %s", r.Code, r.Body)
	}
}
