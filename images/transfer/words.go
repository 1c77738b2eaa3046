package transfer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"oras.land/oras-go/v2/registry/remote/errcode"
)

// worded is an error in people's words. What Go says of a request begins with its method and its address, which may be
// one that a registry made up and that nobody has written.
type worded struct {
	words string
	err   error
}

func (w *worded) Error() string { return w.words }
func (w *worded) Unwrap() error { return w.err }

// plain puts the error of a request into words.
func plain(err error) error { return &worded{words: words(hostOf(err), err), err: err} }

// hostOf names the host that a request went to: also one to which a registry has led.
func hostOf(err error) string {
	if sent, ok := errors.AsType[*url.Error](err); ok {
		if u, bad := url.Parse(sent.URL); bad == nil && u.Host != "" {
			return u.Host
		}
	}
	return "the other side"
}

func words(at string, err error) string {
	name, unnamed := errors.AsType[*net.DNSError](err)
	stranger, unknown := errors.AsType[*tls.CertificateVerificationError](err)
	slow, waits := errors.AsType[net.Error](err)
	switch {
	case unnamed && name.IsNotFound:
		return fmt.Sprintf("there is no host %s", name.Name)
	case unnamed:
		return fmt.Sprintf("the name %s cannot be looked up now", name.Name)
	case unknown:
		return fmt.Sprintf(
			"the certificate of %s is not trusted here (%s)", at, strings.TrimPrefix(stranger.Err.Error(), "x509: "),
		)
	case speaksPlain(err):
		return at + " speaks HTTP without TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at " + at
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no way leads from here to " + at
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return at + " has broken the connection off"
	case waits && slow.Timeout():
		return at + " does not answer in time"
	}
	return bare(err).Error()
}

// speaksPlain says that a server took what begins TLS for a request. Go has no type for it.
func speaksPlain(err error) bool {
	return strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

// bare returns the first error of a chain that does not name an address.
func bare(err error) error {
	for strings.Contains(err.Error(), `://`) {
		within := errors.Unwrap(err)
		if within == nil {
			break
		}
		err = within
	}
	return err
}

// answer says what a registry has answered.
func answer(host string, status int, code, message string) error {
	if code == "" {
		return fmt.Errorf("%s answers %d %s", host, status, http.StatusText(status))
	}
	return fmt.Errorf("%s answers %d %.40s: %.300q", host, status, code, message)
}

// answered puts an answer that oras-go has read into the same words.
func answered(e *errcode.ErrorResponse) error {
	if len(e.Errors) == 0 {
		return answer(e.URL.Host, e.StatusCode, "", "")
	}
	return answer(e.URL.Host, e.StatusCode, e.Errors[0].Code, e.Errors[0].Message)
}
