package environments

import (
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// outward lets callers have the service speak to other hosts, and not to itself: what listens on the loopback of this
// host, or on its link (a cloud's metadata), trusts who reaches it.
type outward struct{ direct, proxied http.RoundTripper }

func newOutward() outward {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: onlyOutward}
	direct.DialContext = dialer.DialContext
	return outward{direct: direct, proxied: http.DefaultTransport}
}

// RoundTrip speaks TLS alone, wherever a registry leads: what trusts the site's network speaks plain HTTP, and a
// stranger's redirect, or the address that he names for tokens, could have the service say things there. It goes
// through the proxy that the environment names for this host; such a one is the administrator's word on what may be
// reached.
func (o outward) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was read of it
		}
		return nil, errs.New(errs.Forbidden, "%s would be spoken to without TLS", r.URL.Host).
			With("name a registry that speaks HTTPS, and leads to such addresses only")
	}
	if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy != nil {
		return o.proxied.RoundTrip(r)
	}
	return o.direct.RoundTrip(r)
}

// onlyOutward looks at the address itself, whatever name led to it.
func onlyOutward(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() {
		return errs.New(
			errs.Forbidden, "%s is an address of the service's own host or link, where it calls nobody for users", ip,
		).With("name a registry by an address at which other hosts reach it too")
	}
	return nil
}
