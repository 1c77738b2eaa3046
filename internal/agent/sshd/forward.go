package sshd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"slipway/internal/sshtunnel"
)

// dial opens a connection from within the session for the client, if it leads to none of the networks of deny.
func (s *Server) dial(ctx context.Context, deny []string, i *sshtunnel.Incoming) {
	network, to, err := s.destination(i)
	if err != nil {
		_ = i.Refuse(connectFailed, err.Error())
		return
	}
	d := net.Dialer{Control: allowed(deny)}
	c, err := d.DialContext(ctx, network, to)
	if no, ok := errors.AsType[*deniedError](err); ok {
		_ = i.Refuse(prohibited, no.Error())
		return
	}
	if err != nil {
		_ = i.Refuse(connectFailed, unreached(err))
		return
	}
	defer c.Close()
	ch, err := i.Accept(ctx)
	if err == nil {
		s.join(c, ch)
	}
}

// unreached says why there is no connection in the words that sshd has for it, which people and programs know.
func unreached(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		text := number.Error()
		return strings.ToUpper(text[:1]) + text[1:]
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		if name.IsNotFound {
			return "Name or service not known"
		}
		return "Temporary failure in name resolution"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return err.Error()
}

// deniedError is of an address to which no forward is opened.
type deniedError struct{ to string }

// Error names it.
func (e *deniedError) Error() string { return "slipway: this site opens no forwards to " + e.to }

// allowed returns what refuses addresses that a site denies, and those of the link itself, at which clouds tell secrets
// of the machine. It is asked for each address that a name has become, right before that is connected to. A network
// that cannot be read denies everything.
func allowed(deny []string) func(network, to string, _ syscall.RawConn) error {
	return func(_, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return nil // a socket's path
		}
		a, meant := at.Addr().WithZone("").Unmap(), embedded(at.Addr())
		if meant.IsLinkLocalUnicast() {
			return &deniedError{at.Addr().String()}
		}
		for _, text := range deny {
			if p, err := netip.ParsePrefix(text); err != nil || p.Contains(a) || p.Contains(meant) {
				return &deniedError{text}
			}
		}
		return nil
	}
}

// embedded returns the address of IPv4 that one of IPv6 stands for: mapped (RFC 4291), for NAT64 (RFC 6052) or for 6to4
// (RFC 3056). Others stand for themselves.
func embedded(a netip.Addr) netip.Addr {
	a, b := a.WithZone(""), a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		a = netip.AddrFrom4([4]byte(b[12:]))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		a = netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a.Unmap()
}

func (s *Server) destination(i *sshtunnel.Incoming) (network, to string, err error) {
	if i.Kind == "direct-tcpip" {
		a, err := parseDirectTCP(i.Extra)
		return "tcp", net.JoinHostPort(a.host, strconv.Itoa(int(a.port))), err
	}
	path, err := parseDirectUnix(i.Extra)
	return "unix", s.absolute(path), err
}

// absolute returns the path of a socket; what is none goes from the home on.
func (s *Server) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.home(), path)
}

// join carries bytes both ways until both have ended, and ends both then. The end of one direction is passed on alone;
// a channel that is cut resets the connection, so that nobody takes half of something for the whole.
func (s *Server) join(c net.Conn, ch *sshtunnel.Channel) {
	t := &trickle{pulse: s.pulse}
	said := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		defer close(said)
		if _, err := io.Copy(ch, felt{Reader: c, moved: t.moved}); err == nil {
			_ = ch.CloseWrite()
			return
		}
		_ = ch.Close()
	})
	if _, err := io.Copy(felt{Writer: c, moved: t.moved}, ch); err == nil {
		closeWrite(c)
	} else {
		reset(c)
	}
	select {
	case <-said:
	case <-ch.Done(): // the client waits for nothing more
		_ = c.Close()
	}
	both.Wait()
	_, _ = c.Close(), ch.Close()
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
}

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
