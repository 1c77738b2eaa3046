package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Credential is what a registry knows somebody by: a name and password, or a token of the registry's token service. The
// zero value is nobody.
type Credential struct {
	Username string
	Password secret.Text
	Identity secret.Text // a refresh token, which is exchanged for access tokens
	Token    secret.Text // an access token
}

// Credentials returns the credential for a registry, which it names by host and port.
type Credentials func(ctx context.Context, host string) (Credential, error)

// Static returns one credential to one registry, and none to the others.
func Static(host string, c Credential) Credentials {
	return func(_ context.Context, asked string) (Credential, error) {
		if asked != host {
			return Credential{}, nil
		}
		return c, nil
	}
}

// DockerConfig reads a Docker configuration file (Podman's and Apptainer's have the same form) each time that a
// credential is asked for, so that a login in the meantime counts. Programs that such a file may name are not run: a
// service must not run what a user's file says.
func DockerConfig(path string) Credentials {
	return func(ctx context.Context, host string) (Credential, error) {
		key := credentials.ServerAddressFromHostname(host)
		if err := noHelper(path, key); err != nil {
			return Credential{}, err
		}
		file, err := credentials.NewFileStore(path)
		if err != nil {
			return Credential{}, unreadable(path)
		}
		c, err := file.Get(ctx, key)
		if err != nil {
			return Credential{}, unreadable(path)
		}
		return Credential{
			Username: c.Username, Password: secret.New(c.Password), Identity: secret.New(c.RefreshToken),
			Token: secret.New(c.AccessToken),
		}, nil
	}
}

// unreadable leaves the cause out: a decoder's error may quote what it read.
func unreadable(path string) error {
	return errs.New(errs.Invalid, "%s cannot be read as a Docker configuration", path).
		With("log in again, so that it is written anew")
}

func noHelper(path, key string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return errs.New(errs.Invalid, "read credentials: %w", err)
	}
	var file struct {
		Auths   map[string]json.RawMessage `json:"auths"`
		Store   string                     `json:"credsStore"`
		Helpers map[string]string          `json:"credHelpers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return unreadable(path)
	}
	if _, plain := file.Auths[key]; !plain && (file.Store != "" || file.Helpers[key] != "") {
		return errs.New(
			errs.Missing, "%s leaves the credential for %s to a helper program, which is not run", path, key,
		).With("give a file that holds the credential itself, or the name and password")
	}
	return nil
}

// credential is what oras-go asks.
func (c *Client) credential(ctx context.Context, host string) (auth.Credential, error) {
	if c.cfg.Credential == nil {
		return auth.EmptyCredential, nil
	}
	got, err := c.cfg.Credential(ctx, host)
	if err != nil {
		return auth.EmptyCredential, fmt.Errorf("get the credential for %s: %w", host, err)
	}
	return auth.Credential{
		Username: got.Username, Password: got.Password.Reveal(), RefreshToken: got.Identity.Reveal(),
		AccessToken: got.Token.Reveal(),
	}, nil
}
