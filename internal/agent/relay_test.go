package agent

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"slipway/internal/tunnel"
)

// What the service has closed is let go of, also where the app neither reads the end of it nor ever writes.
func TestAppThatHeedsNoEnd(t *testing.T) {
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	ended := make(chan struct{})
	dir, err := os.MkdirTemp("/tmp", "agent")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r := &rig{cfg: configIn(dir)}
	r.serve(t)
	up := tunnel.NewUplink(tunnel.UplinkConfig{
		Logger: r.cfg.Logger,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.cfg.LinkSocket)
		},
		Doors: map[tunnel.Door]func(context.Context, net.Conn){tunnel.DoorApp: func(ctx context.Context, s net.Conn) {
			c, err := net.Dial("tcp", app.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			pump(ctx, c, s)
			close(ended)
		}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = up.Run(ctx) })
	defer running.Wait()
	defer cancel()
	r.wait(t)
	c, err := r.links.Dial(t.Context(), workload, tunnel.DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "the last")
	_ = c.Close()
	theirs, err := app.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	eventually(t, "the stream to end", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if b, _ := io.ReadAll(theirs); string(b) != "the last" {
		t.Errorf("%q", b)
	}
}
