package tunnel

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

// doors are what the benchmarks' apps do with a stream: they begin to send, or they take all and say so.
func benchDoors() map[Door]func(context.Context, net.Conn) {
	return map[Door]func(context.Context, net.Conn){
		DoorApp: func(_ context.Context, c net.Conn) { send(c) },
		DoorControl: func(_ context.Context, c net.Conn) {
			take(c)
			_ = c.Close()
		},
	}
}

// take reads what send sends, and answers with a byte.
func take(c net.Conn) {
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(c, bulk), make([]byte, copyLarge)); err == nil {
		_, _ = c.Write([]byte{0})
	}
}

// upload sends, and waits until all was taken.
func upload(b *testing.B, dial func() (net.Conn, error)) {
	b.SetBytes(bulk)
	piece := make([]byte, copyLarge)
	for b.Loop() {
		c, err := dial()
		for left := bulk; left > 0 && err == nil; left -= len(piece) {
			_, err = c.Write(piece)
		}
		if err == nil {
			_, err = io.ReadFull(c, piece[:1])
		}
		if err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}

// BenchmarkBulkRemote compares 256 MiB through a stream of a link from another host with the same through a bare
// connection with TLS, in both directions: down is from the agent to the service.
func BenchmarkBulkRemote(b *testing.B) {
	cert := certificate(b, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), net.ParseIP("127.0.0.1"))
	direct := func(b *testing.B, serve func(net.Conn)) func() (net.Conn, error) {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go serve(c)
			}
		}()
		return func() (net.Conn, error) {
			return tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		}
	}
	stream := func(b *testing.B, door Door) func() (net.Conn, error) {
		a := newRemoteSite(b, nil)
		a.agent(b, benchDoors())
		a.wait(b)
		return func() (net.Conn, error) { return a.links.Dial(b.Context(), a.id, door) }
	}
	b.Run("down/tls", func(b *testing.B) { download(b, direct(b, send)) })
	b.Run("down/link", func(b *testing.B) { download(b, stream(b, DoorApp)) })
	b.Run("up/tls", func(b *testing.B) { upload(b, direct(b, take)) })
	b.Run("up/link", func(b *testing.B) { upload(b, stream(b, DoorControl)) })
}
