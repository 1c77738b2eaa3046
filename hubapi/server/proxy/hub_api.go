package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
)

type hubKey struct{}

// HubAPI makes the way from a workload to the REST API of its own Hub. Only paths below that API pass: a workload must
// not reach the rest of the Hub's network through the service. Who may do what there is the Hub's to judge, by the
// workload's token.
func (p *Proxy) HubAPI() http.Handler {
	transports := map[string]*http.Transport{}
	for _, h := range p.hubs.All() {
		transports[h.Name] = hubTransport(h)
	}
	forward := &httputil.ReverseProxy{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			h, _ := r.Context().Value(hubKey{}).(hubs.Hub)
			return transports[h.Name].RoundTrip(r)
		}),
		FlushInterval: -1, BufferPool: &buffers{}, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		Rewrite: func(to *httputil.ProxyRequest) {
			h, _ := to.In.Context().Value(hubKey{}).(hubs.Hub)
			api := h.APIURL
			to.Out.URL.Scheme, to.Out.URL.Host, to.Out.Host = api.Scheme, api.Host, api.Host
			to.Out.URL.RawQuery = to.In.URL.RawQuery
			to.Out.Header.Del("X-Real-Ip")
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			p.web.Refuse(w, r, &errs.Error{
				Kind: errs.Unavailable, Message: "the Hub does not answer", Remedy: "try again in a moment", Err: err,
			})
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := p.hubOf(r)
		if err == nil {
			err = allowed(r, h.APIURL)
		}
		if err != nil {
			p.web.Refuse(w, r, err)
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex() // as in ServeHTTP
		forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hubKey{}, h)))
	})
}

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hubTransport makes the way to one Hub, whose certificate is checked as for the service's own questions.
func hubTransport(h hubs.Hub) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: h.CA, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		ResponseHeaderTimeout: time.Minute,
	}
}

// hubOf returns the Hub of the workload that asks.
func (p *Proxy) hubOf(r *http.Request) (hubs.Hub, error) {
	w, err := p.web.Workload(r.Context())
	if err != nil {
		return hubs.Hub{}, err
	}
	web.TraceOf(r.Context()).Caller = string(w.ID)
	if h := p.hubs.Named(w.Hub); h.APIURL != nil {
		return h, nil
	}
	return hubs.Hub{}, errs.New(errs.Unavailable, "the hub %q of %s is not configured any more", w.Hub, w.ID)
}

// allowed refuses what is not a plain request for a path below the API.
func allowed(r *http.Request, api *url.URL) error {
	base := strings.TrimRight(api.EscapedPath(), "/") + "/"
	// the API's own address counts too: servers ask it for its version
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/") + "/"
	if r.Method == http.MethodConnect || r.URL.Host != "" || r.URL.Opaque != "" || r.Header.Get("Upgrade") != "" ||
		!strings.HasPrefix(path, base) || web.Climbs(r.URL.EscapedPath()) {
		return errs.New(errs.Forbidden, "only the Hub's REST API below %s can be reached from here", base)
	}
	return nil
}
