// Package credentials keeps every user's credentials, tokens and proxies, and is the only one that refreshes them.
//
// Promises: what is secret lies sealed in the store, with a key outside of it; a user's token of one issuer is
// refreshed by one call at a time, well before it ends, and users' refreshes are spread over time; a refresh token that
// the issuer has replaced is on the disk before anything else is done with it; only access tokens and proxies ever
// leave, and only as Files; an issuer that is down takes nothing away that still holds; what is wrong is told in the
// Entry, with what the user can do about it.
//
// It must not decide who may ask: callers name the principal whose credentials they are, and have made sure that the
// caller may.
package credentials

import (
	"time"

	"slipway/internal/secret"
)

// Kind is what a credential is.
type Kind string

// The kinds.
const (
	Token Kind = "token" // OIDC, WLCG
	Proxy Kind = "proxy" // X.509
)

// Where a credential has come from.
const (
	FromHub    = "hub"    // the Hub's auth state
	FromDevice = "device" // the user's confirmation in a browser
	FromGiven  = "given"  // a refresh token that the user gave
	FromUpload = "upload" // a proxy
)

// ProxyName is the Name of an Entry that is a proxy.
const ProxyName = "x509"

// Facts is what is known of a credential, and is no secret.
type Facts struct {
	Name      string    `json:"name"` // the issuer's name in the configuration, or ProxyName
	Kind      Kind      `json:"kind"`
	Issuer    string    `json:"issuer"`            // URL, or the CA's subject
	Subject   string    `json:"subject,omitempty"` // sub, or the DN
	Scopes    []string  `json:"scopes,omitempty"`
	Audiences []string  `json:"audiences,omitempty"`
	VO        string    `json:"vo,omitempty"`
	FQANs     []string  `json:"fqans,omitempty"`
	From      string    `json:"from"`
	Expires   time.Time `json:"expires,omitzero"` // of what workloads have now
	Until     time.Time `json:"until,omitzero"`   // how long it can be renewed; zero: not known
	// Notes are what else is to be known, such as a storage element whose token could not be narrowed.
	Notes   []string  `json:"notes,omitempty"`
	Updated time.Time `json:"updated,omitzero"`
}

// Entry is what may be shown of one credential; never a secret.
type Entry struct {
	Facts
	Rule      string // of the site's, by which it is this user's; empty: there is none for it
	Renewable bool
	Trouble   string // empty, or what is wrong and what the user does
}

// Holder is whom a credential stands for where it is from.
type Holder struct {
	Kind   Kind
	Issuer string            // of a token: the issuer's name in the configuration
	Claims map[string]string // of a token: what it says of her, sub too
	Name   string            // of a proxy: hers in her certificate (DN)
}

// File is what workloads get of a credential.
type File struct {
	Name    string // "token", "token-<storage element>", "x509"
	Data    secret.Text
	Expires time.Time
	Issued  time.Time // when it was had; another says that it was put or renewed, be it the same
}

// Grant is a login by device flow that waits for the user.
type Grant struct {
	ID      string
	URL     string // where she confirms it; it may hold the code already
	Code    string
	Expires time.Time
}
