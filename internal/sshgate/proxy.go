package sshgate

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"
)

// headerTime is how long a proxy may take to say for whom it comes: what the protocol asks for, so that a lost packet
// can be sent again.
const headerTime = 3 * time.Second

// isProxy says whether an address is a configured proxy's. Such a one must say for whom it comes; what others say of it
// is no ssh.
func (g *Gate) isProxy(a netip.Addr) bool {
	return slices.ContainsFunc(g.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// unwrap waits until a proxy says for whom it comes.
func unwrap(raw net.Conn) (c net.Conn, from netip.Addr, err error) {
	wrapped := proxyproto.NewConn(
		raw, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(headerTime),
	)
	h := wrapped.ProxyHeader()
	switch {
	case h == nil:
		return nil, from, errors.New("a proxy does not say for whom it comes")
	case h.Command.IsLocal():
		return nil, from, errors.New("a proxy looks whether anybody is there")
	}
	from, err = addressOf(h.SourceAddr)
	return wrapped, from, err
}

func addressOf(a net.Addr) (netip.Addr, error) {
	t, ok := a.(*net.TCPAddr)
	if !ok || t.IP == nil {
		return netip.Addr{}, errors.New("it does not come by TCP")
	}
	return t.AddrPort().Addr().Unmap().WithZone(""), nil
}
