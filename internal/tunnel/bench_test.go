package tunnel

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

const bulk = 256 << 20

// BenchmarkBulk compares a download of 256 MiB through a stream of each kind with the same through a bare unix socket.
func BenchmarkBulk(b *testing.B) {
	b.Run("unix", func(b *testing.B) {
		path := filepath.Join(socketDir(b), "plain")
		l, err := net.Listen("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go send(c)
			}
		}()
		download(b, func() (net.Conn, error) { return net.Dial("unix", path) })
	})
	for carrier := range carriers {
		b.Run(carrier, func(b *testing.B) {
			p := newPairOver(b, carrier, map[Door]func(context.Context, net.Conn){DoorApp: func(_ context.Context, c net.Conn) { send(c) }})
			download(b, func() (net.Conn, error) { return p.links.Dial(b.Context(), p.id, DoorApp) })
		})
	}
}

// BenchmarkOpen is the cost of a stream: open, one byte there, one byte back, close.
func BenchmarkOpen(b *testing.B) {
	for carrier := range carriers {
		b.Run(carrier, func(b *testing.B) {
			p := newPairOver(b, carrier, map[Door]func(context.Context, net.Conn){DoorApp: func(_ context.Context, c net.Conn) {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}})
			one := make([]byte, 1)
			for b.Loop() {
				c, err := p.links.Dial(b.Context(), p.id, DoorApp)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, one); err != nil {
					b.Fatal(err)
				}
				_ = c.Close()
			}
		})
	}
}

// BenchmarkAsk is a byte there and one back, through a stream that is open.
func BenchmarkAsk(b *testing.B) {
	for carrier := range carriers {
		b.Run(carrier, func(b *testing.B) {
			p := newPairOver(b, carrier, map[Door]func(context.Context, net.Conn){DoorApp: echo})
			c, err := p.links.Dial(b.Context(), p.id, DoorApp)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			one := make([]byte, 1)
			for b.Loop() {
				if _, err := c.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func send(c net.Conn) {
	defer c.Close()
	piece := make([]byte, copyLarge)
	for left := bulk; left > 0; left -= len(piece) {
		if _, err := c.Write(piece); err != nil {
			return
		}
	}
}

func download(b *testing.B, dial func() (net.Conn, error)) {
	b.SetBytes(bulk)
	for b.Loop() {
		c, err := dial()
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, copyLarge))
		if err != nil || n != bulk {
			b.Fatalf("read %d bytes: %v", n, err)
		}
		_ = c.Close()
	}
}

// socketDir returns a directory whose name is short enough for a socket in it.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "link")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
