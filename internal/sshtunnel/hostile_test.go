package sshtunnel

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

// FuzzDial is the gateway's side against an agent that says anything: the session's user may have put another in its
// place. The first byte says how much of it comes on the connection's stream, and whether that is told of denied
// networks; the rest is what each channel's stream says. Nothing may hang or fall over, and only what was ended by the
// agent ends well.
func FuzzDial(f *testing.F) {
	accept, granted := "a\x00\x00\x00\x00", "y\x00\x00\x00\x05\x01\x00\x00\x00\x00"
	f.Add([]byte("\x0f" + accept + granted + accept + granted + "d\x00\x00\x00\x05hello" + "f\x00\x00\x00\x00" + "c\x00\x00\x00\x00"))
	f.Add([]byte("\x05" + accept + accept + "e\x00\x00\x00\x02no" + "q\x00\x00\x00\x0d\x00\x00\x00\x04exit\x01\x00\x00\x00\x00"))
	f.Add([]byte("\x16" + accept + "i\x00\x00\x00\x0f\x00\x00\x00\x01\x00\x00\x00\x03x11\x00\x00\x00\x00" + accept + granted + granted))
	f.Add([]byte("\x0f" + accept + granted + "r\x00\x00\x00\x08\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Add([]byte("\x0f" + accept + granted + accept + "d\xff\xff\xff\xff"))
	f.Add([]byte("\x99" + accept + granted + granted + accept + granted + "d\x00\x00\x00\x05hello" + "c\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		first := min(int(b[0]&0x7f), len(b)-1)
		var deny []string
		if b[0] > 0x7f {
			deny = []string{"192.0.2.0/24"}
		}
		said := [][]byte{b[1 : 1+first], b[1+first:]}
		var agent sync.WaitGroup
		defer agent.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
		defer cancel()
		dial := func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			text := said[0]
			said[0] = said[1]
			agent.Go(func() { _, _ = io.Copy(io.Discard, there) })
			agent.Go(func() {
				_, _ = there.Write(text)
				_ = there.Close()
			})
			return here, nil
		}
		c, err := Dial(ctx, dial, Login{ID: rand.Text()}, deny)
		if err != nil {
			return
		}
		defer c.Close()
		agent.Go(func() {
			for i := range c.Opened() {
				_ = i.Refuse(1, "")
			}
		})
		_, _, _ = c.Request(ctx, "keepalive@openssh.com", true, nil)
		ch, err := c.Open(ctx, "session", nil)
		if err != nil {
			return
		}
		defer ch.Cut()
		agent.Go(func() {
			for r := range ch.Requests() {
				_ = r.Reply(false)
			}
		})
		_, _ = ch.Send(ctx, "exec", true, nil)
		_, err = io.Copy(io.Discard, ch)
		if err != nil && !errors.Is(err, ErrCut) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
		<-ch.Done()
		if ctx.Err() != nil {
			t.Error("it hangs")
		}
	})
}
