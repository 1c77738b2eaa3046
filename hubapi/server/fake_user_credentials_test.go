package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/hubapi/server/api"
	"slipway/internal/credentials"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

// What is in the fake wallet and must never be seen.
const (
	proxySecret   = "-----BEGIN RSA PRIVATE KEY-----\nMIIhidden"
	refreshSecret = "refresh-hidden"
)

// fakeCredentials keeps what may be shown, by its principal.
type fakeCredentials struct {
	mu      sync.Mutex
	entries map[string][]credentials.Entry
	grants  map[string]string // by id: whose
	grant   chan error        // ends the logins
	unsaid  error             // of removals: the issuer was not told
	asked   []string
}

var _ api.UserCredentials = (*fakeCredentials)(nil)

var _ api.UserCredentials = (*credentials.Manager)(nil)

func newCredentials(principals ...string) *fakeCredentials {
	w := &fakeCredentials{entries: map[string][]credentials.Entry{}, grants: map[string]string{}, grant: make(chan error, 1)}
	for _, p := range principals {
		w.entries[p] = []credentials.Entry{
			{
				Facts: credentials.Facts{
					Name: "wlcg", Kind: credentials.Token, Issuer: "https://issuer.test", Subject: "sub-of-" + p, Scopes: []string{"storage.read:/"}, From: credentials.FromDevice, Expires: time.Now().Add(50*time.Minute + 30*time.Second),
				},
				Renewable: true,
			},
			{
				Facts: credentials.Facts{
					Name: credentials.ProxyName, Kind: credentials.Proxy, Issuer: "/CN=CA", Subject: "/CN=" + p, VO: "atlas", FQANs: []string{"/atlas/Role=NULL"}, From: credentials.FromUpload, Expires: time.Now().Add(90*time.Minute + 30*time.Second),
				},
				Trouble: "it ends soon: put a new one",
			},
		}
	}
	return w
}

// with gives a server the wallet; users are known by "realm:" and their name.
func (f *fakeCredentials) with(c *Config) {
	c.UserCredentials, c.Principal = f, func(hub string, user spawner.User) string { return hub + ":" + string(user) }
}

// find returns a place in the entries.
func (f *fakeCredentials) find(what, principal, name string) (int, error) {
	f.asked = append(f.asked, what+" "+principal+" "+name)
	i := slices.IndexFunc(f.entries[principal], func(e credentials.Entry) bool { return e.Name == name })
	if i < 0 {
		return i, errs.New(errs.NotFound, "there is no credential %q", name).With("list them")
	}
	return i, nil
}

func (f *fakeCredentials) List(_ context.Context, principal string) ([]credentials.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.entries[principal]), nil
}

func (f *fakeCredentials) Renew(_ context.Context, principal, name string) (credentials.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find("renew", principal, name)
	if err != nil {
		return credentials.Entry{}, err
	}
	return f.entries[principal][i], nil
}

func (f *fakeCredentials) Remove(_ context.Context, principal, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find("remove", principal, name)
	if err != nil {
		return err
	}
	f.entries[principal] = slices.Delete(f.entries[principal], i, i+1)
	return f.unsaid
}

func (f *fakeCredentials) PutProxy(_ context.Context, principal string, pem secret.Text) (credentials.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !strings.Contains(pem.Reveal(), "good") {
		e := errs.New(errs.Invalid, "the proxy has expired on 1 May 2026").With("make a new one")
		e.Field = "proxy"
		return credentials.Entry{}, e
	}
	e := credentials.Entry{Facts: credentials.Facts{
		Name: credentials.ProxyName, Kind: credentials.Proxy, Subject: "/CN=put by " + principal, Issuer: "/CN=CA", From: credentials.FromUpload, Expires: time.Now().Add(time.Hour),
	}}
	f.entries[principal] = append(slices.DeleteFunc(f.entries[principal], func(e credentials.Entry) bool { return e.Name == credentials.ProxyName }), e)
	return e, nil
}

func (f *fakeCredentials) RenewProxy(ctx context.Context, principal string, pem secret.Text) (credentials.Entry, error) {
	if strings.Contains(pem.Reveal(), "of another") {
		return credentials.Entry{}, errs.New(errs.Forbidden, "the proxy is of another").With("remove the one that there is first")
	}
	return f.PutProxy(ctx, principal, pem)
}

func (f *fakeCredentials) PutRefresh(_ context.Context, principal, issuer string, refresh secret.Text) (credentials.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if issuer != "wlcg" || refresh.Reveal() != refreshSecret {
		return credentials.Entry{}, errs.Bad("issuer", issuer, "one of: wlcg")
	}
	e := credentials.Entry{Facts: credentials.Facts{
		Name: issuer, Kind: credentials.Token, Subject: "given by " + principal, From: credentials.FromGiven,
	}}
	f.entries[principal] = []credentials.Entry{e}
	return e, nil
}

func (f *fakeCredentials) BeginDevice(_ context.Context, principal, issuer string) (credentials.Grant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if issuer != "wlcg" {
		return credentials.Grant{}, errs.Bad("issuer", issuer, "one of: wlcg")
	}
	id := "grant-of-" + principal
	f.grants[id] = principal
	return credentials.Grant{ID: id, URL: "https://issuer.test/device?<b>", Code: "ABCD-<EF>", Expires: time.Now().Add(10 * time.Minute)}, nil
}

func (f *fakeCredentials) Device(ctx context.Context, principal, grantID string) (credentials.Entry, error) {
	select {
	case err := <-f.grant:
		e := credentials.Entry{Facts: credentials.Facts{
			Name: "wlcg", Kind: credentials.Token, Subject: "logged in as " + principal, From: credentials.FromDevice, Expires: time.Now().Add(time.Hour),
		}}
		if err != nil {
			return credentials.Entry{}, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.entries[principal] = []credentials.Entry{e}
		return e, nil
	case <-ctx.Done():
		return credentials.Entry{}, ctx.Err()
	}
}

func (f *fakeCredentials) Issuers() []string { return []string{"wlcg"} }

func (f *fakeCredentials) Proxies() bool { return true }
