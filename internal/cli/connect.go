package cli

import (
	"os"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/clientlogin"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// connect makes the client that the environment asks for: the service's address and a token, or the agent's socket
// inside a session or job; else that of the login of this computer.
func connect(env Env) (*hubapi.Client, error) {
	url, socket := env.Getenv("SLIPWAY_URL"), socketOf(env)
	if url == "" && socket != "" {
		return hubapi.NewClient(hubapi.ClientConfig{Socket: socket})
	}
	if url != "" && env.Getenv("SLIPWAY_TOKEN")+env.Getenv("SLIPWAY_TOKEN_FILE") != "" {
		token, err := tokenOf(env)
		if err != nil {
			return nil, err
		}
		return hubapi.NewClient(hubapi.ClientConfig{URL: url, Token: hubapi.Token(token.Reveal())})
	}
	return byLogin(env, url)
}

// byLogin makes the client of the login at a service; where url is empty, of the latest.
func byLogin(env Env, url string) (*hubapi.Client, error) {
	saved, known, err := findLogin(env, url)
	switch {
	case err != nil:
		return nil, err
	case !known && url != "":
		return nil, errs.New(errs.Invalid, "SLIPWAY_URL is set, and no token").
			With("log in with `slipway login`, or set SLIPWAY_TOKEN, or SLIPWAY_TOKEN_FILE, to a token from the Hub's token page")
	case !known:
		return nil, errs.New(errs.Invalid, "no service is known here").
			With("inside a session nothing is needed; outside, log in with `slipway login ADDRESS`, or set SLIPWAY_URL to the service's address and SLIPWAY_TOKEN to a token from the Hub's token page")
	case !time.Now().Before(saved.Expires):
		return nil, errs.New(
			errs.Unauthorized, "your login at %s ended on %s", saved.URL, saved.Expires.Local().Format(time.DateOnly),
		).With("log in again with `slipway login`")
	}
	return hubapi.NewClient(hubapi.ClientConfig{URL: saved.URL, Token: hubapi.Token(saved.Token)})
}

// findLogin finds the login at a service. Who has no home, or an address that no login can be of, has none.
func findLogin(env Env, url string) (clientlogin.Login, bool, error) {
	file, err := savedLogins(env)
	if err != nil {
		return clientlogin.Login{}, false, nil
	}
	if url != "" {
		if url, err = safeAddress(url); err != nil {
			return clientlogin.Login{}, false, nil
		}
	}
	return file.Find(url)
}

// knowsService reports whether there is a service to connect to.
func knowsService(env Env) bool { return env.Getenv("SLIPWAY_URL") != "" || socketOf(env) != "" }

// inSession reports whether connect asks as the session around this program.
func inSession(env Env) bool { return env.Getenv("SLIPWAY_URL") == "" && socketOf(env) != "" }

// socketOf finds the agent's socket; empty when this is no session.
func socketOf(env Env) string {
	if s := env.Getenv(control.SocketEnv); s != "" {
		return s
	}
	if _, err := os.Stat(control.APISocket); err == nil {
		return control.APISocket
	}
	return ""
}

// tokenOf reads the token of the environment, which has one.
func tokenOf(env Env) (secret.Text, error) {
	if t := env.Getenv("SLIPWAY_TOKEN"); t != "" {
		return secret.New(t), nil
	}
	b, err := os.ReadFile(env.Getenv("SLIPWAY_TOKEN_FILE"))
	if err != nil {
		return secret.Text{}, errs.New(errs.Invalid, "read the token: %w", err).With("check SLIPWAY_TOKEN_FILE")
	}
	return secret.New(strings.TrimSpace(string(b))), nil
}
