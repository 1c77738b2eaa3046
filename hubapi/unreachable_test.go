package hubapi

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"slipway/internal/errs"
)

// TestUnreachableWords: who hears that a service cannot be reached hears why in her own words, and what to do.
func TestUnreachableWords(t *testing.T) {
	lookup := func(e net.DNSError) error {
		e.Name, e.Server = "nonsense", "192.0.2.53:53"
		return &url.Error{Op: "Get", URL: "https://nonsense/api", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &e}}
	}
	mismatch := &url.Error{Op: "Get", Err: http.ErrSchemeMismatch}
	tests := map[string]struct {
		where string
		err   error
		want  string
	}{
		"no host":       {"https://nonsense", lookup(net.DNSError{Err: "no such host", IsNotFound: true}), "there is no host named nonsense: check the address https://nonsense"},
		"no resolver":   {"https://nonsense", lookup(net.DNSError{Err: "i/o timeout", IsTimeout: true}), "the host name nonsense cannot be looked up: check that this computer is online, and try again"},
		"plain here":    {"https://127.0.0.1:8090", mismatch, "what is at https://127.0.0.1:8090 speaks plain http there: use http://127.0.0.1:8090"},
		"plain as name": {"https://localhost:8090", mismatch, "what is at https://localhost:8090 speaks plain http there: use http://localhost:8090"},
		"plain away":    {"https://hub.example.org", mismatch, "what is at https://hub.example.org speaks plain http there: ask its administrator for an https address: others on the way could read what is sent by http"},
	}
	for name, tt := range tests {
		if got := unreachable(tt.where, tt.err); got.Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
}

func TestPlainHTTPWhereHTTPSWasAsked(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	c, err := NewClient(ClientConfig{URL: strings.Replace(plain.URL, "http", "https", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SSH(t.Context()); !errs.Is(err, errs.Invalid) || !strings.HasSuffix(err.Error(), ": use "+plain.URL) {
		t.Errorf("%v", err)
	}
}

func TestUnknownAuthority(t *testing.T) {
	service := httptest.NewUnstartedServer(http.NotFoundHandler())
	service.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that the client went away
	service.StartTLS()
	defer service.Close()
	c, err := NewClient(ClientConfig{URL: service.URL})
	if err != nil {
		t.Fatal(err)
	}
	want := "the certificate of " + service.URL + " is signed by an authority that this computer does not know: " +
		"check the address, or ask the administrator for a certificate that your computer trusts"
	if _, err := c.SSH(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestNobodyListens(t *testing.T) {
	c, err := NewClient(ClientConfig{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "the service at http://127.0.0.1:1 does not answer: connection refused: check that it runs and that the address is right"
	if _, err := c.SSH(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
