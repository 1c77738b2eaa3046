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
	at := kernelsAt(cfg)
	return []check{{"kernels at " + at, true, func(ctx context.Context) error { return kernelsAnswer(ctx, at) }}}
}

// kernelsAt is the gateway's address on this host.
func kernelsAt(cfg config.Config) string {
	scheme := "http"
	if cfg.TLS.Cert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/kernels"
}

// kernelsAnswer asks the gateway for its version, which it tells anybody.
func kernelsAnswer(ctx context.Context, at string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/api", nil)
	if err != nil {
		return err
	}
	// its certificate is another check's
	c := http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	res, err := c.Do(r)
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
