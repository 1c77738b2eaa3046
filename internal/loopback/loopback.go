// Package loopback says which hosts are this computer, to which a secret may go without TLS. It promises to ask nobody:
// a name that resolves to a loopback address is not one, for what it resolves to can change.
package loopback

import "net"

// Is reports whether a host, as it stands in a URL, is this computer by its name or address.
func Is(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }
