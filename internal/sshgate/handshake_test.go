package sshgate

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// far is a connection that comes from somewhere.
type far struct{ net.Conn }

// RemoteAddr says from where.
func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4444} }

// TestHandshakesEnd: wherever a client stops on its way in, its connection ends when the time for that is over, and not
// before.
func TestHandshakesEnd(t *testing.T) {
	says := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, _ = io.WriteString(c, text)
		}
	}
	for name, tt := range map[string]struct {
		come  func(net.Conn)
		after time.Duration
	}{
		"it says nothing":         {says(""), greetTime},
		"half its version":        {says("SSH-2.0-ha"), greetTime},
		"its version":             {says("SSH-2.0-x\r\n"), loginTime},
		"half a packet":           {says("SSH-2.0-x\r\n\x00\x00\x05\x00\x04\x14"), loginTime},
		"OpenSSH's version":       {says("SSH-2.0-OpenSSH_9.2\r\n"), loginTime},
		"half its lists":          {says("SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x05\x00\x04\x14"), loginTime},
		"lists that are too long": {says("SSH-2.0-OpenSSH_9.2\r\n\x00\x00\x7f\x00\x04\x14"), loginTime},
	} {
		t.Run(name, func(t *testing.T) {
			keeper := newFakeKeeper(t)
			synctest.Test(t, func(t *testing.T) {
				g := New(Config{Gatekeeper: keeper, AtOnce: 1, Logger: slog.New(slog.DiscardHandler)})
				here, there := net.Pipe()
				begun := time.Now()
				go tt.come(here)
				g.door.approach(t.Context())
				g.serve(t.Context(), far{there}) // which returns when the connection has ended
				if took := time.Since(begun).Truncate(time.Second); took != tt.after {
					t.Errorf("its connection has ended after %s, not %s", took, tt.after)
				}
				_ = here.Close()
			})
		})
	}
}
