package sshgate

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"
)

// headerTime is how long a proxy may take to say for whom it comes.
const headerTime = 10 * time.Second

// unwrap finds out from where a connection comes. A configured proxy must say it; what others say of it is no ssh.
func (g *Gate) unwrap(raw net.Conn) (c net.Conn, from netip.Addr, err error) {
	if from, err = addressOf(raw.RemoteAddr()); err != nil {
		return nil, from, err
	}
	if !slices.ContainsFunc(g.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return raw, from, nil
	}
	wrapped := proxyproto.NewConn(raw, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(headerTime))
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
