package transfer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"oras.land/oras-go/v2/registry/remote/errcode"

	"slipway/internal/errs"
)

// sentTo is what Go's client makes of an error.
func sentTo(err error) error {
	return &url.Error{Op: "Head", URL: "https://registry.example.org:5000/v2/x/blobs/sha256:1", Err: err}
}

func TestWords(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for want, err := range map[string]error{
		"there is no host registry.example.org":                   sentTo(dial(&net.DNSError{Name: "registry.example.org", IsNotFound: true})),
		"the name registry.example.org cannot be looked up now":   sentTo(dial(&net.DNSError{Name: "registry.example.org", IsTemporary: true})),
		"nothing listens at registry.example.org:5000":            sentTo(dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))),
		"no way leads from here to registry.example.org:5000":     sentTo(dial(os.NewSyscallError("connect", syscall.ENETUNREACH))),
		"registry.example.org:5000 has broken the connection off": sentTo(io.EOF),
		"the other side has broken the connection off":            io.ErrUnexpectedEOF,
		"registry.example.org:5000 does not answer in time":       sentTo(dial(os.ErrDeadlineExceeded)),
		"nothing has moved for too long":                          sentTo(errSilent),
		"registry.example.org:5000 speaks HTTP without TLS":       sentTo(errors.New("http: server gave HTTP response to HTTPS client")),
		"bearer realm \"http://x/\" uses http":                    fmt.Errorf("HEAD %q: %w", "https://r/v2/", errors.New(`bearer realm "http://x/" uses http`)),
		"the certificate of registry.example.org:5000 is not trusted here (certificate signed by unknown authority)": sentTo(
			&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}),
	} {
		if got := plain(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v\nis %q\nnot %q", err, got, want)
		}
	}
}

// TestNoAddressInErrors: what went wrong is told once, without the address of the request, and keeps its kind and
// remedy.
func TestNoAddressInErrors(t *testing.T) {
	at, _ := url.Parse("https://auth.example.org/token?scope=secret")
	forbidden := errs.New(errs.Forbidden, "127.0.0.1 is this host").With("another")
	for want, err := range map[string]error{
		"look: 127.0.0.1 is this host": sentTo(forbidden),
		`look: auth.example.org answers 401 UNAUTHORIZED: "no"`: &errcode.ErrorResponse{
			Method: "GET", URL: at, StatusCode: http.StatusUnauthorized, Errors: errcode.Errors{{Code: "UNAUTHORIZED", Message: "no"}}},
		"look: auth.example.org answers 502 Bad Gateway": &errcode.ErrorResponse{Method: "GET", URL: at, StatusCode: http.StatusBadGateway},
	} {
		got := broken("look", err)
		if !strings.HasPrefix(got.Error(), want) || strings.Contains(got.Error(), "://") {
			t.Errorf("%v is told as %q, not %q", err, got, want)
		}
	}
	if _, again := errors.AsType[*failure](broken("look", sentTo(&net.DNSError{Name: "x", IsNotFound: true}))); again {
		t.Error("a name that there is not is tried again")
	}
	if got := broken("look", sentTo(forbidden)); !errs.Is(got, errs.Forbidden) {
		t.Errorf("it is of another kind: %v", got)
	}
}

// TestStrangersServer: certificates of unknown authorities and servers without TLS are told at once, with what to do.
func TestStrangersServer(t *testing.T) {
	quiet := func(s *httptest.Server) *httptest.Server { s.Config.ErrorLog = log.New(io.Discard, "", 0); return s }
	nobody := http.NotFoundHandler()
	for want, s := range map[string]*httptest.Server{"SSL_CERT_FILE": quiet(httptest.NewTLSServer(nobody)), "speaks HTTPS": quiet(httptest.NewServer(nobody))} {
		defer s.Close()
		host := s.Listener.Addr().String()
		c, _ := client(t, func(cfg *Config) { cfg.Plain = nil })
		_, err := c.Architectures(t.Context(), Reference{Host: host, Repository: "x", Tag: "1"})
		if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "://") {
			t.Errorf("%q: %v", want, err)
		}
	}
}
