package authproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

const (
	hubTime   = 20 * time.Second // for one answer of the Hub
	hubAnswer = 4 << 20          // bytes of one: an administrator's scopes name many users
	hubAtOnce = 8                // questions under way; more of them wait
)

// hub asks the Hub.
type hub struct {
	set  settings
	trip http.RoundTripper
	turn chan struct{}

	mu      sync.Mutex
	release string // of the Hub, once it has said it
}

func newHub(set settings, open func(context.Context) (net.Conn, error)) *hub {
	trip := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return open(ctx) },
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	return &hub{set: set, trip: trip, turn: make(chan struct{}, hubAtOnce)}
}

// version returns the Hub's release, empty while it does not say.
func (h *hub) version(ctx context.Context) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.release == "" {
		var answer struct {
			Version string `json:"version"`
		}
		if h.ask(ctx, question{method: http.MethodGet, url: h.set.api.String() + "/"}, &answer) == nil && !strings.ContainsAny(answer.Version, "\r\n\x00") {
			h.release = answer.Version
		}
	}
	return h.release
}

// exchange returns the visitor's token for the code that she has brought from the Hub.
func (h *hub) exchange(ctx context.Context, code, verifier string) (secret.Text, error) {
	form := url.Values{
		"client_id": {h.set.client}, "client_secret": {h.set.token.Reveal()}, "grant_type": {"authorization_code"},
		"code": {code}, "redirect_uri": {h.set.redirect}, "code_verifier": {verifier},
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	q := question{
		method: http.MethodPost, url: h.set.api.String() + "/oauth2/token", kind: "application/x-www-form-urlencoded",
		body: form.Encode(),
	}
	err := h.ask(ctx, q, &answer)
	if err == nil && answer.Token == "" {
		err = errs.New(errs.Unavailable, "the Hub's answer has no token in it")
	}
	return secret.New(answer.Token), err
}

// identify asks whether the owner of a token may use this server: nil; an error of kind Unauthorized or Forbidden: she
// may not. After any other it is not known.
func (h *hub) identify(ctx context.Context, token secret.Text) error {
	var who struct {
		Name   string   `json:"name"`
		Scopes []string `json:"scopes"`
	}
	if err := h.ask(ctx, question{method: http.MethodGet, url: h.set.api.String() + "/user", token: token}, &who); err != nil {
		return err
	}
	if !meets(h.set.access, who.Scopes) {
		return errs.New(errs.Forbidden, "user %.100q has no access to this server", who.Name).
			With("its owner may share it in JupyterHub")
	}
	return nil
}

// report tells when something last went on in the server.
func (h *hub) report(ctx context.Context, last time.Time) error {
	at := last.UTC().Format("2006-01-02T15:04:05.000000Z")
	body, err := json.Marshal(map[string]any{
		"last_activity": at, "servers": map[string]any{h.set.name: map[string]string{"last_activity": at}},
	})
	if err != nil {
		return err
	}
	q := question{
		method: http.MethodPost, url: h.set.activity, kind: "application/json", body: string(body), token: h.set.token,
	}
	return h.ask(ctx, q, nil)
}

// question is one to the Hub.
type question struct {
	method, url string
	kind, body  string      // of what is sent; empty: nothing
	token       secret.Text // empty: none
}

// ask asks once.
func (h *hub) ask(ctx context.Context, q question, into any) error {
	ctx, cancel := context.WithTimeout(ctx, hubTime)
	defer cancel()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, strings.NewReader(q.body))
	if err != nil {
		return fmt.Errorf("ask the Hub: %w", err)
	}
	if q.kind != "" {
		req.Header.Set("Content-Type", q.kind)
	}
	if !q.token.Empty() {
		req.Header.Set("Authorization", "token "+q.token.Reveal())
	}
	res, err := h.trip.RoundTrip(req)
	if err != nil {
		return errs.New(errs.Unavailable, "the Hub does not answer: %w", err).With("try again in a minute")
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, hubAnswer))
	if err == nil && res.StatusCode == http.StatusOK && into != nil {
		err = json.NewDecoder(bytes.NewReader(b)).Decode(into)
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		return errs.New(errs.Unauthorized, "the Hub does not know this login any more").With("log in again")
	case q.method == http.MethodPost && res.StatusCode/100 == 4 && res.StatusCode != http.StatusTooManyRequests:
		return errs.New(errs.Unauthorized, "the Hub does not take the login: HTTP status %d", res.StatusCode).
			With("log in again")
	case res.StatusCode != http.StatusOK:
		return errs.New(errs.Unavailable, "the Hub answers with HTTP status %d", res.StatusCode).
			With("try again in a minute")
	case err != nil:
		return errs.New(errs.Unavailable, "read the Hub's answer: %w", err).With("try again in a minute")
	}
	return nil
}
