// Package clients makes, from the configuration, what asks the services that a site has elsewhere: Hubs, issuers of
// tokens and storage elements.
//
// It is for the service and for what looks at a host before the service runs there. It reads the files with secrets that
// the configuration names, and must not ask anybody but for IssuerAhead.
package clients

import (
	"context"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/oidc"
	"slipway/internal/xrd"
)

// HubConfig returns what a client of a hub needs.
func HubConfig(h config.Hub) (c hub.Config, err error) {
	c.Service = h.Service
	if c.APIURL, err = h.API(); err != nil {
		return c, err
	}
	if c.Token, err = h.Token(); err != nil {
		return c, err
	}
	c.CA, err = h.CA()
	return c, err
}

// Issuer makes the client of an issuer. What it learns of a token has these claims beside those that everybody needs.
func Issuer(i config.Issuer, claims ...string) (*oidc.Client, error) {
	password, err := i.ClientSecret()
	if err != nil {
		return nil, err
	}
	ca, err := i.CA()
	if err != nil {
		return nil, err
	}
	return oidc.New(oidc.Config{
		Name: i.Name, URL: i.URL, ClientID: i.ClientID, ClientSecret: password, Scopes: i.Scopes, Claims: claims,
		CA: ca,
	})
}

// issuerTime is how long an issuer may take to say what time it has.
const issuerTime = 8 * time.Second

// IssuerAhead asks an issuer by how much its clock is ahead of this host's.
func IssuerAhead(ctx context.Context, i config.Issuer) (time.Duration, error) {
	ca, err := i.CA()
	if err != nil {
		return 0, err
	}
	c, err := oidc.New(oidc.Config{Name: i.Name, URL: i.URL, ClientID: i.ClientID, CA: ca, Patience: issuerTime})
	if err != nil {
		return 0, err
	}
	at, err := c.Look(ctx)
	return time.Until(at), err
}

// StorageElements returns the storage elements of a configuration.
func StorageElements(cfg config.Data) []xrd.Element {
	var out []xrd.Element
	for _, e := range cfg.Storage {
		out = append(out, xrd.Element{
			Name: e.Name, Origin: e.Origin, Path: e.Path, Cache: e.Cache, Mount: e.Mount, Write: e.Write,
		})
	}
	return out
}
