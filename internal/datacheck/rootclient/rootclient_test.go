package rootclient

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/secret"
	"slipway/internal/xrd/xrdtest"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), xrdtest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// code returns the number of a refusal; 0 when there was none.
func code(err error) int {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Code
	}
	return 0
}

// TestRealServers: what is written at a real origin is read there and through a real XCache, and is gone when it is
// removed.
func TestRealServers(t *testing.T) {
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	origin.Put("sub/file", strings.Repeat("x", 3<<20))
	ctx, c := within(t), Client{}
	list, err := c.List(ctx, origin.URL, "/data")
	if err != nil || len(list) != 1 || list[0].Name != "sub" || !list[0].Dir {
		t.Fatalf("%+v, %v", list, err)
	}
	if list, err = c.List(ctx, origin.URL, "/data/sub"); err != nil || len(list) != 1 || list[0] != (Entry{Name: "file", Size: 3 << 20}) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, server := range []string{origin.URL, cache.URL, cache.URL} {
		if n, err := c.Read(ctx, server, "/data/sub/file", 4<<20); err != nil || n != 3<<20 {
			t.Errorf("%s: %d bytes, %v", server, n, err)
		}
	}
	if n, err := c.Read(ctx, origin.URL, "/data/sub/file", 1500000); err != nil || n != 1500000 {
		t.Errorf("the beginning: %d bytes, %v", n, err)
	}
	data := bytes.Repeat([]byte("probe"), 100000)
	if err := c.Write(ctx, origin.URL, "/data/sub/new", data); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(filepath.Join(origin.Data, "sub/new")); err != nil || !bytes.Equal(have, data) {
		t.Errorf("%d bytes were written, %v", len(have), err)
	}
	if err := c.Write(ctx, origin.URL, "/data/sub/new", []byte("other")); code(err) == 0 {
		t.Errorf("what is there is written over: %v", err)
	}
	if err := c.Write(ctx, cache.URL, "/data/sub/other", data); code(err) != 3025 {
		t.Errorf("a write through the cache: %v", err)
	}
	if err := c.Remove(ctx, origin.URL, "/data/sub/new"); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(ctx, origin.URL, "/data/sub/new", 1); code(err) != NotFound {
		t.Errorf("what is removed: %v", err)
	}
}

// TestTokens: a real server takes a token over TLS as it does from XRootD's own client, and no other.
func TestTokens(t *testing.T) {
	trust := xrdtest.NewTrust(t)
	origin := trust.TokenOrigin()
	cache := trust.TokenCache(origin)
	origin.Put("alice/file", "hers")
	pem, err := os.ReadFile(filepath.Join(trust.Dir, "ca.pem"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatal("no authority", err)
	}
	with := func(token string) Client { return Client{Token: secret.New(token), Roots: roots} }
	hers := trust.Token("alice", "storage.read:/alice storage.create:/alice storage.modify:/alice", time.Hour)
	ctx := within(t)
	for _, server := range []string{origin.URL, cache.URL, strings.Replace(origin.URL, "root:", "roots:", 1)} {
		if n, err := with(hers).Read(ctx, server, "/data/alice/file", 100); n != 4 || err != nil {
			t.Errorf("%s: %d, %v\n%s", server, n, err, origin.Log())
		}
	}
	if err := with(hers).Write(ctx, origin.URL, "/data/alice/new", []byte("new")); err != nil {
		t.Error(err)
	}
	if err := with(hers).Remove(ctx, origin.URL, "/data/alice/new"); err != nil {
		t.Error(err)
	}
	if err := with(hers).Write(ctx, origin.URL, "/data/bob/new", nil); code(err) != NotAuthorized {
		t.Errorf("elsewhere: %v", err)
	}
	old := trust.Token("alice", "storage.read:/alice", -time.Minute)
	if _, err := with(old).Read(ctx, origin.URL, "/data/alice/file", 100); code(err) == 0 || strings.Contains(err.Error(), old[len(old)-20:]) {
		t.Errorf("expired: %v", err)
	}
	if _, err := with("").Read(ctx, origin.URL, "/data/alice/file", 100); !errors.Is(err, ErrNoToken) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := (Client{Token: secret.New(hers), Roots: x509.NewCertPool()}).Read(ctx, origin.URL, "/data/alice/file", 100); err == nil || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("of a server that is not trusted: %v", err)
	}
}
