package oidc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/testenv/oidcissuer"
)

func clientOf(t *testing.T, i *oidcissuer.Issuer) *Client {
	t.Helper()
	c, err := New(Config{Name: "wlcg", URL: i.URL, ClientID: oidcissuer.ClientID, ClientSecret: secret.New(oidcissuer.ClientSecret), CA: i.CA, Scopes: []string{"openid"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRefresh(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	first := secret.New(i.Grant("alice"))
	got, err := c.Refresh(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := c.Check(ctx, got, Want{Subject: "alice"})
	if err != nil || facts.Subject != "alice" || len(facts.Scopes) != 5 || time.Until(facts.Expires) < 50*time.Minute || got.Refresh.Empty() {
		t.Fatalf("%+v, %v", facts, err)
	}
	if _, err := c.Check(ctx, got, Want{Subject: "bob"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("another person's token was taken: %v", err)
	}
	if _, err := c.Refresh(ctx, first); !Refused(err) {
		t.Errorf("a refresh token that was replaced: %v", err)
	}
	if _, err := c.Refresh(ctx, got.Refresh); !Refused(err) {
		t.Errorf("the family outlived its misuse: %v", err)
	}
}

func TestExchangeNarrows(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	wide, err := c.Refresh(ctx, secret.New(i.Grant("alice")))
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := c.Exchange(ctx, wide.Access, "https://eos.example", []string{"storage.read:/data"})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := c.Check(ctx, narrow, Want{Subject: "alice", Audience: "https://eos.example"})
	if err != nil || fmt.Sprint(facts.Audiences, facts.Scopes) != "[https://eos.example] [storage.read:/data]" {
		t.Errorf("%+v, %v", facts, err)
	}
	if _, err := c.Check(ctx, narrow, Want{Audience: "https://other.example"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a token for another audience was taken: %v", err)
	}
	if _, err := c.Exchange(ctx, wide.Access, "", []string{"compute.create:/"}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "invalid_scope") {
		t.Errorf("%v", err)
	}
}

func TestDevice(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	d, err := c.BeginDevice(ctx)
	if err != nil || !strings.HasPrefix(d.URL, i.URL) || d.Code == "" {
		t.Fatalf("%+v, %v", d, err)
	}
	brief, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.AwaitDevice(brief, d); err == nil {
		t.Error("granted before it was confirmed")
	}
	i.Confirm(d.Code, "alice")
	got, err := c.AwaitDevice(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	if facts, err := c.Check(ctx, got, Want{}); err != nil || facts.Subject != "alice" {
		t.Errorf("%+v, %v", facts, err)
	}
	denied, err := c.BeginDevice(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i.Deny(denied.Code)
	if _, err := c.AwaitDevice(ctx, denied); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v", err)
	}
}

func TestRevoke(t *testing.T) {
	i := oidcissuer.New(t)
	c, token := clientOf(t, i), secret.New(i.Grant("alice"))
	if err := c.Revoke(t.Context(), token); err != nil || !i.Ended("alice") {
		t.Errorf("%v", err)
	}
}

func TestIssuerThatOnlyRefreshes(t *testing.T) {
	i := oidcissuer.New(t)
	i.Bare()
	c, ctx := clientOf(t, i), t.Context()
	if o, err := c.Offers(ctx); err != nil || o != (Offers{}) {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := c.BeginDevice(ctx); !errs.Is(err, errs.Missing) {
		t.Error(err)
	}
	if err := c.Revoke(ctx, secret.New("x")); !errs.Is(err, errs.Missing) {
		t.Error(err)
	}
}

func unsigned(claims jwt.MapClaims) string {
	text, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		panic(err)
	}
	return text
}

// confused signs with what everybody has, as a secret.
func confused(public []byte) func(jwt.MapClaims) string {
	return func(claims jwt.MapClaims) string {
		t := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
		t.Header["kid"] = "k1"
		text, err := t.SignedString(public)
		if err != nil {
			panic(err)
		}
		return text
	}
}

// foreign signs with a key of nobody, under the name of the issuer's or another.
func foreign(kid string) func(jwt.MapClaims) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return func(claims jwt.MapClaims) string {
		t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		t.Header["kid"] = kid
		text, err := t.SignedString(key)
		if err != nil {
			panic(err)
		}
		return text
	}
}

func with(name string, value any) func(jwt.MapClaims) string {
	return func(claims jwt.MapClaims) string { claims[name] = value; return "" }
}

func TestBadTokensAreRefused(t *testing.T) {
	somebody, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&somebody.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, c := range map[string]struct {
		twist func(jwt.MapClaims) string
		says  string
	}{
		"expired":          {with("exp", time.Now().Add(-time.Minute).Unix()), "it ended on"},
		"not yet valid":    {with("nbf", time.Now().Add(time.Hour).Unix()), "not before"},
		"another's issuer": {with("iss", "https://elsewhere.example"), "different provider"},
		"another's person": {with("sub", "mallory"), "another person"},
		"alg none":         {unsigned, "alg"},
		"HS for RS":        {confused(public), "alg"},
		"key of nobody":    {foreign("k1"), "signature"},
		"unknown key":      {foreign("k99"), "signature"},
		"huge":             {with("huge", strings.Repeat("x", 40<<10)), "larger"},
		"endless":          {with("huge", strings.Repeat("x", 2<<20)), "makes no sense"},
		"none":             {func(jwt.MapClaims) string { return " " }, "characters"},
		"two lines":        {func(jwt.MapClaims) string { return "opaque\ntoken" }, "characters"},
		"no JWT":           {func(jwt.MapClaims) string { return "a.b.c" }, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			i := oidcissuer.New(t)
			client, ctx := clientOf(t, i), t.Context()
			i.Twist(c.twist)
			got, err := client.Refresh(ctx, secret.New(i.Grant("alice")))
			if err == nil {
				_, err = client.Check(ctx, got, Want{Subject: "alice"})
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q in: %v", c.says, err)
			}
			for _, token := range i.Given() {
				if err != nil && len(token) > 8 && strings.Contains(err.Error(), token) {
					t.Error("the error holds a token")
				}
			}
		})
	}
}

func TestNewKeysAreFetchedAndNotForEveryName(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	i.KeepRefresh()
	token := secret.New(i.Grant("alice"))
	check := func() error {
		got, err := c.Refresh(ctx, token)
		if err != nil {
			return err
		}
		_, err = c.Check(ctx, got, Want{})
		return err
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	m, err := c.metadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil || i.Asked("/keys") != 1 {
		t.Fatalf("asked for its keys %d times: %v", i.Asked("/keys"), err)
	}
	i.Twist(foreign("k99"))
	for range 20 {
		if check() == nil {
			t.Fatal("a token of nobody's was taken")
		}
	}
	if n := i.Asked("/keys"); n > 2 {
		t.Errorf("20 tokens with an unknown key made it fetch the keys %d times", n)
	}
	i.Twist(nil)
	i.NewKey()
	if err := check(); !errs.Is(err, errs.Unavailable) {
		t.Errorf("%v", err) // fetched a moment ago: it can be looked at later
	}
	forget(t, c, m)
	if err := check(); err != nil {
		t.Errorf("the new key was not taken: %v", err)
	}
}

// forget has the client fetch keys at once, as if a while had passed.
func forget(t *testing.T, c *Client, m *metadata) {
	t.Helper()
	next, err := c.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.keys = next.keys
}

func TestIssuerDown(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	token := secret.New(i.Grant("alice"))
	i.Down(true)
	for range 5 {
		if _, err := c.Refresh(ctx, token); !errs.Is(err, errs.Unavailable) {
			t.Fatal(err)
		}
	}
	if n := i.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("an issuer that is down was asked %d times at once", n)
	}
}

func TestWhatAnIssuerToldIsKeptWhenItIsDown(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	if _, err := c.Offers(ctx); err != nil {
		t.Fatal(err)
	}
	i.Down(true)
	if _, err := c.Refresh(ctx, secret.New("x")); !errs.Is(err, errs.Unavailable) || Refused(err) {
		t.Error(err)
	}
	i.Down(false)
	if _, err := c.Refresh(ctx, secret.New(i.Grant("alice"))); err != nil {
		t.Error(err)
	}
}

func TestSlowIssuer(t *testing.T) {
	i := oidcissuer.New(t)
	c, err := New(Config{Name: "wlcg", URL: i.URL, ClientID: oidcissuer.ClientID, CA: i.CA, Patience: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	i.Slow(time.Minute)
	if _, err := c.Refresh(t.Context(), secret.New("x")); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

func TestIssuerThatCallsItselfAnother(t *testing.T) {
	i := oidcissuer.New(t)
	i.Metadata(func(m map[string]any) { m["issuer"] = "https://elsewhere.example" })
	if _, err := clientOf(t, i).Offers(t.Context()); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "elsewhere") {
		t.Error(err)
	}
}

func TestEndpointsInTheClear(t *testing.T) {
	i := oidcissuer.New(t)
	i.Metadata(func(m map[string]any) { m["token_endpoint"] = "http://elsewhere.example/token" })
	if _, err := clientOf(t, i).Offers(t.Context()); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "token_endpoint") {
		t.Error(err)
	}
	if _, err := New(Config{URL: "http://issuer.example", ClientID: "x"}); err == nil {
		t.Error("an issuer without TLS was taken")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	i := oidcissuer.New(t)
	reached := false
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer elsewhere.Close()
	turn := httptest.NewTLSServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer turn.Close()
	i.Metadata(func(m map[string]any) { m["token_endpoint"] = turn.URL })
	if _, err := clientOf(t, i).Refresh(t.Context(), secret.New(i.Grant("alice"))); err == nil || reached {
		t.Errorf("the refresh token went elsewhere: %v", err)
	}
}

func TestOpaqueToken(t *testing.T) {
	i := oidcissuer.New(t)
	i.Twist(func(jwt.MapClaims) string { return "opaque" })
	c, ctx := clientOf(t, i), t.Context()
	got, err := c.Refresh(ctx, secret.New(i.Grant("alice")))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := c.Check(ctx, got, Want{})
	if err != nil || facts.Subject != "alice" || time.Until(facts.Expires) < 50*time.Minute {
		t.Errorf("%+v, %v", facts, err) // by the ID token, and by expires_in
	}
}

// TestClaims: of what a token says callers have what they have asked for, and text alone.
func TestClaims(t *testing.T) {
	i := oidcissuer.New(t)
	i.Twist(func(c jwt.MapClaims) string {
		c["preferred_username"], c["groups"], c["mail"] = "alice", []string{"x"}, "a@b"
		return ""
	})
	c, err := New(Config{
		Name: "wlcg", URL: i.URL, ClientID: oidcissuer.ClientID, ClientSecret: secret.New(oidcissuer.ClientSecret), CA: i.CA, Claims: []string{"preferred_username", "groups", "sub"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Refresh(t.Context(), secret.New(i.Grant("s-1")))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := c.Check(t.Context(), got, Want{})
	if want := map[string]string{"preferred_username": "alice", "sub": "s-1"}; err != nil || !maps.Equal(facts.Claims, want) {
		t.Errorf("%v, %v; want %v", facts.Claims, err, want)
	}
}
