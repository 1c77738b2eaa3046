package hubapi

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/loopback"
)

// notReached is an error of a request that Slipway has not answered, or not to its end.
type notReached struct{ error }

// Unwrap gives the error.
func (e notReached) Unwrap() error { return e.error }

// NotReached reports whether a request got no answer of Slipway's that could be read: another try may get one.
func NotReached(err error) bool {
	_, not := errors.AsType[notReached](err)
	return not
}

// unreachable is the error of a request that got no answer of the service at where, as its caller can act on it.
func unreachable(where string, err error) error { return notReached{whyUnreachable(where, err)} }

func whyUnreachable(where string, err error) error {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return errs.New(errs.Invalid, "what is at %s speaks plain http there", where).With(plainRemedy(where))
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return errs.New(errs.Unavailable, "there is no host named %s", dns.Name).With("check the address " + where)
		}
		return errs.New(errs.Unavailable, "the host name %s cannot be looked up", dns.Name).
			With("check that this computer is online, and try again")
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return errs.New(
			errs.Unavailable, "the certificate of %s is signed by an authority that this computer does not know", where,
		).With("check the address, or ask the administrator for a certificate that your computer trusts")
	}
	return errs.New(errs.Unavailable, "the service at %s does not answer: %w", where, cause(err)).
		With("check that it runs and that the address is right")
}

// plainRemedy advises plain http on this computer alone: elsewhere it shows the token to whoever is on the way.
func plainRemedy(where string) string {
	u, err := url.Parse(where)
	if err != nil {
		return "use http://"
	}
	if loopback.Is(u.Hostname()) {
		return "use http://" + strings.TrimPrefix(where, "https://")
	}
	return "ask its administrator for an https address: others on the way could read what is sent by http"
}

// cause takes away what the libraries put around an error, the method, the addresses and the system call: the caller
// says better what was asked of whom.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err
}
