package sshgate

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The kinds of channels that the gateway knows something of.
const (
	kindSession = "session"
	kindTCP     = "direct-tcpip"
	kindUnix    = "direct-streamlocal@openssh.com"
	kindFromTCP = "forwarded-tcpip"
	kindFromUnx = "forwarded-streamlocal@openssh.com"
	kindAgent   = "auth-agent@openssh.com"
	kindX11     = "x11"
)

// directTCP is what asks for a connection, as RFC 4254 section 7.2 has it.
type directTCP struct {
	Host     string
	Port     uint32
	From     string
	FromPort uint32
}

// destination says where a channel is to lead, in words for the log; empty where that says nothing. The error is of
// what cannot be read.
func destination(kind string, extra []byte) (to string, host string, err error) {
	switch kind {
	case kindTCP:
		var d directTCP
		if err := ssh.Unmarshal(extra, &d); err != nil || d.Port > 65535 {
			return "", "", fmt.Errorf("a request for a connection that cannot be read")
		}
		return brief(net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))), d.Host, nil
	case kindUnix:
		var d struct {
			Path, Reserved string
			Number         uint32
		}
		if err := ssh.Unmarshal(extra, &d); err != nil {
			return "", "", fmt.Errorf("a request for a socket that cannot be read")
		}
		return brief(d.Path), "", nil
	}
	return "", "", nil
}

// denied returns the network of deny that a host is in. A host that is a name leads where the session finds it, which
// is why its agent is told of deny, and looks at what the name has become. The session has a shell, and could go there
// by itself: so this keeps ways closed that a client takes without knowing, and is no wall around the session.
func denied(host string, deny []netip.Prefix) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Prefix{}, false
	}
	a = a.Unmap().WithZone("")
	for _, p := range deny {
		if p.Contains(a) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// brief shortens what a client has chosen, for the log.
func brief(s string) string { return shorten(s, 200) }

// shorten cuts what is longer than so many bytes, and shows that.
func shorten(s string, most int) string {
	if s = strings.ToValidUTF8(s, "?"); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
