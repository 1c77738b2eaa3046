package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// door is a service that jobs reach although it is at an address that is closed to them: a name server, or one of
// Config.Reach. One at an address of this host's is reached through the shim, which passes on what comes.
type door struct {
	addr    netip.Addr
	port    uint16
	names   bool   // a name server
	passes  bool   // the firewall lets it pass, without the shim
	listens uint16 // the port in the namespace where the shim listens
	tcp     net.Listener
	udp     net.PacketConn
}

const dns = 53

// nameServers returns those of this host, as Apptainer tells them to containers.
func nameServers() ([]netip.Addr, error) {
	f, err := os.Open("/etc/resolv.conf")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseResolver(f), nil
}

func parseResolver(r io.Reader) (servers []netip.Addr) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil && a.Zone() == "" && !a.IsUnspecified() {
			servers = append(servers, a.Unmap())
		}
	}
	return servers
}

// wanted are the doors of a job, not open yet; own are this host's addresses.
func (p plan) wanted(ctx context.Context, own map[netip.Addr]bool) ([]door, error) {
	servers, err := nameServers()
	if err != nil {
		return nil, err
	}
	var all []door
	add := func(d door) {
		d.passes = !d.addr.IsLoopback() && !own[d.addr]
		if !slices.ContainsFunc(all, func(o door) bool { return o.addr == d.addr && o.port == d.port }) {
			all = append(all, d)
		}
	}
	for _, s := range servers {
		add(door{addr: s, port: dns, names: true})
	}
	for _, service := range p.Reach {
		for _, at := range resolve(ctx, service) {
			add(door{addr: at.Addr(), port: at.Port()})
		}
	}
	return all, nil
}

// resolve returns the addresses of HOST:PORT; none where the name is not known now, which is nowhere on this host then.
func resolve(ctx context.Context, service string) (out []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	host, port, err := net.SplitHostPort(service)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range found {
		out = append(out, netip.AddrPortFrom(a.Unmap().WithZone(""), uint16(n)))
	}
	return out
}

// openDoors opens the doors. It is called in the job's network namespace.
func (n *network) openDoors(wanted []door) error {
	for _, d := range wanted {
		if !d.passes {
			if err := d.listen(); err != nil {
				return fmt.Errorf("let the job reach %s: %w", d.server(), err)
			}
		}
		n.doors = append(n.doors, d)
	}
	return nil
}

// listen listens where the job expects the name server, or where the firewall turns it to.
func (d *door) listen() (err error) {
	at, port := d.addr, d.port
	switch {
	case at.IsLoopback():
	case at.Is4():
		at, port = netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0
	default:
		at, port = netip.IPv6Loopback(), 0
	}
	if d.tcp, err = net.Listen("tcp", netip.AddrPortFrom(at, port).String()); err != nil {
		return err
	}
	d.listens = uint16(d.tcp.Addr().(*net.TCPAddr).Port)
	if !d.names {
		return nil
	}
	d.udp, err = net.ListenPacket("udp", netip.AddrPortFrom(at, d.listens).String())
	return err
}

func (d door) close() {
	if d.tcp != nil {
		_ = d.tcp.Close()
	}
	if d.udp != nil {
		_ = d.udp.Close()
	}
}

// Bounds of what a job may have the shim ask.
const (
	answersWithin = 10 * time.Second
	mostQuestions = 256 // and connections, at once, for each door
	largestPacket = 64 << 10
)

// serve passes on what comes until the door is closed.
func (d door) serve(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, mostQuestions)
	if d.tcp != nil {
		all.Go(func() { d.serveTCP(ctx, &all, room) })
	}
	if d.udp != nil {
		d.serveUDP(ctx, &all, room)
	}
}

func (d door) server() string { return netip.AddrPortFrom(d.addr, d.port).String() }

func (d door) serveTCP(ctx context.Context, all *sync.WaitGroup, room chan struct{}) {
	for {
		c, err := d.tcp.Accept()
		if err != nil {
			return
		}
		select {
		case room <- struct{}{}:
		default:
			_ = c.Close() // it will ask again
			continue
		}
		all.Go(func() {
			defer func() { <-room }()
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			d.pass(ctx, c)
		})
	}
}

// pass joins a connection to the server: to one for names for as long as an answer may take.
func (d door) pass(ctx context.Context, c net.Conn) {
	dialer := net.Dialer{Timeout: answersWithin}
	if d.names {
		limited, cancel := context.WithTimeout(ctx, answersWithin)
		defer cancel()
		ctx = limited
	}
	s, err := dialer.DialContext(ctx, "tcp", d.server())
	if err != nil {
		return
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _, _ = c.Close(), s.Close() })()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(c, s); _ = c.Close() })
	_, _ = io.Copy(s, c)
	_ = s.(*net.TCPConn).CloseWrite()
	back.Wait()
}

func (d door) serveUDP(ctx context.Context, all *sync.WaitGroup, room chan struct{}) {
	packet := make([]byte, largestPacket)
	for {
		size, from, err := d.udp.ReadFrom(packet)
		if err != nil {
			return
		}
		question := slices.Clone(packet[:size])
		select {
		case room <- struct{}{}:
		default:
			continue // it will ask again
		}
		all.Go(func() {
			defer func() { <-room }()
			if answer := d.ask(ctx, question); answer != nil {
				_, _ = d.udp.WriteTo(answer, from)
			}
		})
	}
}

// ask returns the server's answer to a packet; nil when there is none.
func (d door) ask(ctx context.Context, question []byte) []byte {
	var dialer net.Dialer
	s, err := dialer.DialContext(ctx, "udp", d.server())
	if err != nil {
		return nil
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	_ = s.SetDeadline(time.Now().Add(answersWithin))
	answer := make([]byte, largestPacket)
	if _, err := s.Write(question); err != nil {
		return nil
	}
	size, err := s.Read(answer)
	if err != nil {
		return nil
	}
	return answer[:size]
}
