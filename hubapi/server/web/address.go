package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// PeerOf returns where a request comes from, as far as that is known for sure: the peer of the connection, and where
// that is a trusted proxy, the last address in its X-Forwarded-For that is none. What stands before that, and in other
// headers, anybody could have written.
func (s *Core) PeerOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	peer := at.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !s.isTrustedProxy(peer) {
			break
		}
		peer = before.Unmap()
	}
	return peer
}

func (s *Core) isTrustedProxy(a netip.Addr) bool {
	return slices.ContainsFunc(s.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// AddressOf returns where a request comes from, to show; the zero address where a proxy that is not trusted has carried
// it.
func (s *Core) AddressOf(r *http.Request) netip.Addr {
	peer := s.PeerOf(r)
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	direct := err == nil && peer == at.Addr().Unmap()
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if direct && r.Header.Get(name) != "" {
			return netip.Addr{}
		}
	}
	return peer
}
