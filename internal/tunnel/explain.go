package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// skew is by how much two clocks may differ without a word about it.
const skew = 2 * time.Minute

// explain says why the service cannot be reached, in words for a user who will show them to an administrator.
func (d *Dialer) explain(ctx context.Context, at *url.URL, answer *http.Response, err error) error {
	if answer != nil && answer.StatusCode != http.StatusSwitchingProtocols {
		return explainAnswer(at, answer)
	}
	return Explain(ctx, at, d.now(), err)
}

// Explain says why nothing was heard from the service at an address, by this host's time. Whose time is wrong, where a
// certificate is out of its, the service is asked.
func Explain(ctx context.Context, at *url.URL, now time.Time, err error) error {
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return explainTime(at, e.Cert, now, theirTime(ctx, at))
	}
	why := "the service at " + at.Host + " cannot be reached"
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return errs.New(
			errs.Unavailable, "the certificate of %s is for %s", at.Host, strings.Join(namesOf(e.Certificate), ", "),
		).With("the administrator puts a name of the certificate into uplink.url, or that name into the certificate")
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errs.New(
			errs.Unavailable, "the certificate of %s is signed by an authority that is not known here", at.Host,
		).With("the administrator names that authority's certificate in uplink.ca_file of the service")
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return errs.New(errs.Unavailable, "what answers at %s does not speak TLS", at.Host).
			With("the administrator names an HTTPS address in uplink.url")
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return errs.New(errs.Unavailable, "%s: the name %s is not known here", why, e.Name).
			With("the worker's DNS must know it")
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errs.New(errs.Unavailable, "%s: nothing listens there", why).With("the service may be restarting")
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return errs.New(errs.Unavailable, "%s: no answer in time", why).
			With("a firewall may be in between: the worker must reach that port")
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return errs.New(errs.Unavailable, "%s: %w", why, err).With("the service's administrator looks at uplink.url")
}

// refusal is the body of an error of the service.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Remedy  string `json:"remedy"`
	} `json:"error"`
}

// explainAnswer tells what the service said instead of opening the link.
func explainAnswer(at *url.URL, answer *http.Response) error {
	var r refusal
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	kind := errs.ByCode(r.Error.Code)
	if err != nil || kind == errs.Internal {
		return errs.New(
			errs.Unavailable, "what answers at %s opens no link: HTTP status %d", at.Host, answer.StatusCode,
		).With("the administrator looks at uplink.url, and whether a proxy in between lets websockets through")
	}
	return errs.New(kind, "the service at %s opens no link: %s", at.Host, r.Error.Message).With(r.Error.Remedy)
}

// explainTime says whether a certificate is out of its time, or a clock is wrong. The service's own clock decides;
// zero: it is not known.
func explainTime(at *url.URL, cert *x509.Certificate, here, there time.Time) error {
	said := fmt.Sprintf(
		"the certificate of %s holds from %s to %s", at.Host, stamp(cert.NotBefore), stamp(cert.NotAfter),
	)
	e := errs.New(errs.Unavailable, "%s, and the clock of this machine says %s", said, stamp(here))
	if there.IsZero() {
		return e.With("one of the two is wrong: the administrator renews the certificate, or sets the clock")
	}
	e = errs.New(
		errs.Unavailable, "%s; the clock of this machine says %s, that of the service %s", said, stamp(here),
		stamp(there),
	)
	sound := !there.Before(cert.NotBefore) && !there.After(cert.NotAfter)
	switch {
	case sound && here.Sub(there).Abs() > skew:
		return e.With("this machine's clock is wrong: its administrator sets it")
	case !sound:
		return e.With("the certificate is out of its time: the service's administrator renews it")
	}
	return e.With("the certificate begins or ends just now: wait, or have it renewed")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// theirTime asks whatever is at the address for its time, without showing it any secret. What is not trusted can lie:
// the answer is for the words of an error alone.
func theirTime(ctx context.Context, at *url.URL) time.Time {
	c := http.Client{
		Timeout: handshakeTime,
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+at.Host+"/healthz", nil)
	if err != nil {
		return time.Time{}
	}
	answer, err := c.Do(r)
	if err != nil {
		return time.Time{}
	}
	_ = answer.Body.Close()
	t, _ := http.ParseTime(answer.Header.Get("Date")) // zero when it has none
	return t
}

// namesOf returns whom a certificate is for.
func namesOf(c *x509.Certificate) []string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = []string{"nobody"}
	}
	return names
}
