// Package hubs has the JupyterHubs of a service: what each is, which of them a request may be of, and which paths are
// whose. A hub vouches for its users (Identify); what a user may do is decided elsewhere.
package hubs

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"iter"
	"net/url"
	"slices"

	"slipway/hubapi/hub"
	"slipway/internal/secret"
	"slipway/spawner"
)

// Hub is a JupyterHub that vouches for users.
type Hub struct {
	Name         string
	APIURL       *url.URL       // of its REST API; its path is all that workloads may reach
	CA           *x509.CertPool // what its certificate is checked against when workloads reach it. Nil: the system's
	SpawnerToken secret.Text    // what its Spawner presents; empty: it has none
	Admins       []string       // its users who may see and stop everybody's workloads of this hub
	Activity     bool           // the service tells the Hub what goes on in sessions: their servers need not
	// Identify finds the user of a Hub token: hub.Client's method.
	Identify func(ctx context.Context, token string) (hub.Identity, error)
	// PagesPrefix is the path below which the Hub's proxy carries the service's pages, with its Hub's base path and
	// with slashes at both ends, such as /services/slipway/. Empty, or without OAuth: there are none.
	PagesPrefix string
	OAuth       OAuth // logs users in to the pages
	// Outpost are the credentials of its OutpostSpawner, any of which stands for the hub; none: it has no such Spawner.
	Outpost []Credential
	// Servers starts servers for its users; nil: the service has no token there.
	Servers Servers
	// OutpostAddress is the host:port at which its proxy reaches the session proxy. Empty: as its requests name the
	// service.
	OutpostAddress string
	// Address is where programs of its users reach the service, such as https://slipway.example.org. Empty: it is not
	// known.
	Address string
	// Env is what all its sessions find in their environment, unless the Hub says something else.
	Env map[string]string
}

// Caller is the user for whom the hub vouches.
func (h Hub) Caller(id hub.Identity) spawner.Caller {
	return spawner.Caller{User: spawner.User(id.Name), Hub: h.Name, Admin: slices.Contains(h.Admins, id.Name)}
}

// OAuth logs users in by their Hub: hub.OAuth has it.
type OAuth interface {
	Begin(ctx context.Context) (hub.Login, error)
	Exchange(ctx context.Context, code, verifier string) (secret.Text, error)
}

// Servers start what a Hub's users would start on its pages. hub.Client does, with a token of the service's own there.
type Servers interface {
	Server(ctx context.Context, user, server string) (hub.Server, error)
	StartServer(ctx context.Context, user, server string, options map[string]any) (up bool, err error)
	Progress(ctx context.Context, user, server string) iter.Seq2[hub.Progress, error]
}

// Credential is what the OutpostSpawner of a hub presents.
type Credential struct {
	Username string
	Password secret.Text
}

// Is compares without telling by its time how much is right.
func (c Credential) Is(username, password string) bool {
	want := sha256.Sum256([]byte(c.Username + ":" + c.Password.Reveal()))
	got := sha256.Sum256([]byte(username + ":" + password))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && !c.Password.Empty()
}
