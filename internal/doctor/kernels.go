package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// kernelChecks look whether the running service has the gateway to kernels that its configuration says.
func kernelChecks(cfg config.Config) []check {
	if len(cfg.Kernels.Specs) == 0 {
		return nil
	}
	at := serviceAt(cfg) + "/kernels"
	return []check{{"kernels at " + at, true, func(ctx context.Context) error { return kernelsAnswer(ctx, at) }}}
}

// serviceAt is the service's address on this host.
func serviceAt(cfg config.Config) string {
	scheme := "http"
	if cfg.TLS.Cert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// kernelsAnswer asks the gateway for its version, which it tells anybody.
func kernelsAnswer(ctx context.Context, at string) error {
	res, err := ask(ctx, at+"/api")
	if err != nil {
		return errs.New(errs.Unavailable, "nothing answers: %w", err).With("start the service: `slipway serve`")
	}
	defer res.Body.Close()
	var said struct {
		Version string `json:"version"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&said); err != nil || res.StatusCode != http.StatusOK || said.Version == "" {
		return errs.New(errs.Conflict, "what answers there has no kernels (status %d)", res.StatusCode).
			With("start the service again: it runs with a configuration from before, or another program has its port")
	}
	return nil
}

// ask asks the running service for what it tells anybody on this host. Its certificate is another check's.
func ask(ctx context.Context, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	c := http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	return c.Do(r)
}
