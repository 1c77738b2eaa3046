package oidc

import (
	"net/url"
	"strings"
	"testing"

	"slipway/internal/secret"
	"slipway/internal/testenv/oidcissuer"
)

func TestRefusalTellsNoSecret(t *testing.T) {
	i := oidcissuer.New(t)
	c, ctx := clientOf(t, i), t.Context()
	refresh := i.Grant("alice")
	wide, err := c.Refresh(ctx, secret.New(refresh))
	if err != nil {
		t.Fatal(err)
	}
	i.Echo()
	_, gone := c.Refresh(ctx, secret.New(refresh))
	_, none := c.Exchange(ctx, wide.Access, "https://eos.example", nil)
	if !Refused(gone) || none == nil {
		t.Errorf("%v, %v", gone, none)
	}
	for _, s := range i.Given() {
		if strings.Contains(gone.Error(), s) || strings.Contains(none.Error(), s) {
			t.Errorf("%v, %v", gone, none)
		}
	}
}

func TestTelling(t *testing.T) {
	c := &Client{cfg: Config{ClientSecret: secret.New("swordfish")}}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"0123456789abcdef0123"}, "scope": {"storage.read:/data"}}
	for said, want := range map[string]bool{
		"Token is not active": false, "unsupported grant type: refresh_token": false, "no scope storage.read:/data here": false,
		"insufficient_user_authentication": false, "ask https://login.example.org/realms/wlcg/help for more": false,
		"no such token: 0123456789abcdef0123": true, "no such token: 456789abcd...": true, "token eyJhbGciOiJ is old": true, "client swordfish is wrong": true,
		"session 5f2c0a4be9d84f0aa1b2c3d4e5f60718": true,
	} {
		if c.telling(said, form) != want {
			t.Errorf("%q: not %v", said, want)
		}
	}
}
