package cli

import (
	"os"
	"strings"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// connect makes the client that the environment asks for: the agent's socket inside a session or job, else the
// service's address and a token.
func connect(env Env) (*hubapi.Client, error) {
	if url := env.Getenv("SLIPWAY_URL"); url != "" {
		token, err := tokenOf(env)
		if err != nil {
			return nil, err
		}
		return hubapi.NewClient(hubapi.ClientConfig{URL: url, Token: hubapi.Token(token.Reveal())})
	}
	if socket := socketOf(env); socket != "" {
		return hubapi.NewClient(hubapi.ClientConfig{Socket: socket})
	}
	return nil, errs.New(errs.Invalid, "no service is known here").
		With("inside a session nothing is needed; outside, set SLIPWAY_URL to the service's address and SLIPWAY_TOKEN to a token from the Hub's token page")
}

// knowsService reports whether there is a service to connect to.
func knowsService(env Env) bool { return env.Getenv("SLIPWAY_URL") != "" || socketOf(env) != "" }

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

func tokenOf(env Env) (secret.Text, error) {
	if t := env.Getenv("SLIPWAY_TOKEN"); t != "" {
		return secret.New(t), nil
	}
	path := env.Getenv("SLIPWAY_TOKEN_FILE")
	if path == "" {
		return secret.Text{}, errs.New(errs.Invalid, "SLIPWAY_URL is set, and no token").
			With("set SLIPWAY_TOKEN, or SLIPWAY_TOKEN_FILE, to a token from the Hub's token page")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return secret.Text{}, errs.New(errs.Invalid, "read the token: %w", err).With("check SLIPWAY_TOKEN_FILE")
	}
	return secret.New(strings.TrimSpace(string(b))), nil
}
