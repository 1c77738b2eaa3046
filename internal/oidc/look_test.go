package oidc

import (
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv/oidcissuer"
)

func TestLook(t *testing.T) {
	i := oidcissuer.New(t)
	c, err := New(Config{Name: "wlcg", URL: i.URL, ClientID: oidcissuer.ClientID, CA: i.CA})
	if err != nil {
		t.Fatal(err)
	}
	if at, err := c.Look(t.Context()); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("%v, %v", at, err)
	}
	i.Down(true)
	if _, err := c.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "the issuer wlcg") {
		t.Errorf("while it is down: %v", err)
	}
	i.Down(false)
	i.Metadata(func(m map[string]any) { m["issuer"] = "https://other.test" })
	if _, err := c.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "calls itself") {
		t.Errorf("one that is another: %v", err)
	}
}
