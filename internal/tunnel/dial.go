package tunnel

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/loopback"
)

// AgentHeader names the process that dials. With it the service tells an agent that comes back from a second one with
// the same credential.
const AgentHeader = "Slipway-Agent"

// Dialer dials the service from another host, by websocket.
type Dialer struct {
	agent string
	pool  *sync.Pool
	now   func() time.Time
}

// NewDialer makes a Dialer for this process.
func NewDialer() *Dialer { return &Dialer{agent: rand.Text(), pool: newPool(), now: time.Now} }

// Dial connects. Its errors are for the log of the workload: they say what is wrong in plain words.
func (d *Dialer) Dial(ctx context.Context, u control.Uplink) (net.Conn, error) {
	at, err := address(u.URL)
	if err != nil {
		return nil, err
	}
	roots, err := rootsOf(u.CA)
	if err != nil {
		return nil, err
	}
	h := &handshake{pool: d.pool}
	h.transport = &http.Transport{
		DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, DialContext: h.dial,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Time: d.now},
		TLSHandshakeTimeout: handshakeTime, ResponseHeaderTimeout: handshakeTime,
	}
	ws, answer, err := websocket.Dial(ctx, at.String(), &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport: h, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + u.Token}, AgentHeader: {d.agent}},
	})
	if err != nil {
		return nil, d.explain(ctx, at, answer, err)
	}
	return newWire(ws, h.out, h.raw), nil
}

// address reads where the service is. The credential must not travel in the clear, but for tests on one host.
func address(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errs.Bad("url", s, "an address such as wss://slipway.example.org/api/v1/link")
	}
	if u.Scheme != "wss" && !(u.Scheme == "ws" && loopback.Is(u.Hostname())) {
		return nil, errs.Bad("url", s, "an address that begins with wss://: the credential must not be read on the way")
	}
	return u, nil
}

// rootsOf returns what certificates are checked against; nil: what the host trusts.
func rootsOf(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pem)) {
		return nil, errs.New(errs.Invalid, "the link's CA holds no certificate").
			With("the administrator looks at uplink.ca_file of the service")
	}
	return roots, nil
}

// handshake makes one request, and remembers the connection below it.
type handshake struct {
	transport *http.Transport
	pool      *sync.Pool
	raw       net.Conn
	out       *burst
}

func (h *handshake) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	h.raw = c
	return c, err
}

// RoundTrip puts a burst below the websocket.
func (h *handshake) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if both, ok := answer.Body.(io.ReadWriteCloser); ok && answer.StatusCode == http.StatusSwitchingProtocols {
		h.out = &burst{to: both, pool: h.pool}
		answer.Body = upgraded{both, h.out}
	}
	return answer, nil
}

// upgraded is a connection after the handshake.
type upgraded struct {
	io.ReadCloser
	io.Writer
}

// newPool makes a pool of buffers for bursts.
func newPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, 0, burstSize)
		return &b
	}}
}
