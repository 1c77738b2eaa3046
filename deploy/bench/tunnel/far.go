package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
)

// far is the argument of the process that plays the agents.
const far = "far"

// orders are what it is told, on its standard input; when that ends it ends.
type orders struct {
	Uplinks   []control.Uplink
	Plain     int    // connections with TLS to PlainAt, which do nothing
	PlainAt   string // of the service
	Cert, Key []byte // PEM
}

// What an app does with a connection; a length follows.
const (
	down = 'd' // it sends so many bytes
	up   = 'u' // it takes so many, and answers with one
	echo = 'e' // it sends back what comes; there is no length
)

const piece = 256 << 10

// runFar plays the agents: it says where it listens for bare connections, and dials.
func runFar(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(o.Cert, o.Key)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() { cancel(); _ = l.Close(); work.Wait() }()
	work.Go(func() { accept(l) })
	for _, u := range o.Uplinks {
		work.Go(func() { _ = uplink(u).Run(ctx) })
	}
	held, err := plain(o)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, l.Addr())
	_, err = io.Copy(io.Discard, lines)
	for _, c := range held {
		_ = c.Close()
	}
	return err
}

func uplink(u control.Uplink) *tunnel.Uplink {
	d := tunnel.NewDialer()
	return tunnel.NewUplink(tunnel.UplinkConfig{
		Dial: func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, u) },
		Doors: map[tunnel.Door]func(context.Context, net.Conn){
			tunnel.DoorApp: func(_ context.Context, c net.Conn) { app(c) },
		},
		Logger: slog.New(slog.DiscardHandler),
	})
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go app(c)
	}
}

// plain makes the connections that do nothing.
func plain(o orders) (held []net.Conn, err error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.Cert)
	for range o.Plain {
		c, err := tls.Dial("tcp", o.PlainAt, &tls.Config{RootCAs: roots})
		if err == nil {
			_, err = c.Write([]byte{0})
		}
		if err != nil {
			return nil, err
		}
		held = append(held, c)
	}
	return held, nil
}

// app is at the far end of both paths.
func app(c net.Conn) {
	defer c.Close()
	var what [9]byte
	if _, err := io.ReadFull(c, what[:]); err != nil {
		return
	}
	n := int64(binary.BigEndian.Uint64(what[1:]))
	switch what[0] {
	case down:
		_ = send(c, n)
	case up:
		if take(c, n) == nil {
			_, _ = c.Write([]byte{0})
		}
	case echo:
		_, _ = io.Copy(c, c)
	}
}

func send(c net.Conn, n int64) error {
	b := make([]byte, piece)
	for n > 0 {
		m, err := c.Write(b[:min(n, piece)])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}

func take(c net.Conn, n int64) error {
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(c, n), make([]byte, piece))
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
