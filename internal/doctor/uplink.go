package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// reachable asks the service as a worker would, from here.
func reachable(ctx context.Context, u config.Uplink) error {
	pem, err := u.CA()
	if err != nil {
		return err
	}
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem != "" {
		trusted.RootCAs = x509.NewCertPool()
		trusted.RootCAs.AppendCertsFromPEM([]byte(pem))
	}
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: trusted, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.At("healthz").String(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unreached(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errs.New(errs.Unavailable, "%s answers %s: that is not the service", req.URL, resp.Status).
			With("correct uplink.url, or the proxy in front of the service")
	}
	return nil
}

// unreached says what is in the way of a connection.
func unreached(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return errs.New(errs.Invalid, "its certificate is signed by nobody whom this host trusts: %w", unknown).
			With("set uplink.ca_file to the PEM certificate of who has signed it")
	case errors.As(err, &name):
		return errs.New(errs.Invalid, "its certificate is of another name: %w", name).
			With("name the service in uplink.url as its certificate does")
	case errors.As(err, &invalid):
		return errs.New(errs.Invalid, "its certificate does not hold: %w", invalid).
			With("renew it, and look at this host's clock")
	}
	return errs.New(errs.Unavailable, "it does not answer: %w", err).
		With("start the service if it does not run; else look at uplink.url, at the tls section and at firewalls")
}
