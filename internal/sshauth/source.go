package sshauth

import "net/netip"

// Source gives what stands for one source of requests: an IPv6 network gives its hosts as many addresses as they like. No address has none.
func Source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}
