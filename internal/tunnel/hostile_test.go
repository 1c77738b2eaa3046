package tunnel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/testenv"
)

// Whatever connects and is no agent is dropped, and the agent that comes after it is served.
func TestGarbageOnTheSocket(t *testing.T) {
	for name, text := range map[string]string{
		"garbage":       "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"other version": "slipway link 9\n",
		"bad frames":    hello + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"body too long": hello + string(frame(0, 1, 1, 1<<31)),
		"nothing":       "",
	} {
		t.Run(name, func(t *testing.T) {
			p := &pair{id: "s-x", socket: socketDir(t) + "/s"}
			p.serve(t, nil)
			c, err := p.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, text)
			_ = c.(*net.UnixConn).CloseWrite()
			_, _ = io.ReadAll(c)
			_ = c.Close()
			run(t, NewUplink(UplinkConfig{Dial: p.dial, Doors: map[Door]func(context.Context, net.Conn){DoorApp: echo}, Logger: slog.New(slog.DiscardHandler)}).Run)
			p.wait(t)
		})
	}
}

func frame(kind byte, flags uint16, stream, length uint32) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return binary.BigEndian.AppendUint32(b, length)
}

// greeted connects as a sound agent would and leaves the rest to the test.
func greeted(t *testing.T) (*pair, net.Conn) {
	t.Helper()
	p := &pair{id: "s-x", socket: socketDir(t) + "/s"}
	p.serve(t, nil)
	c, err := p.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := greet(c); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
	return p, c
}

func TestPingFloodDropsTheLink(t *testing.T) {
	_, c := greeted(t)
	flood := bytes.Repeat(frame(typePing, 1, 0, 7), 10000)
	_, _ = c.Write(flood)
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

// Streams over the limit are refused; the link and the streams under it live on.
func TestStreamLimit(t *testing.T) {
	p := newPair(t, nil)
	l := p.links.Streams(DoorAPI)
	run(t, func(context.Context) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			_, _ = io.WriteString(c, "x")
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	served := 0
	for range peerStreams + 10 {
		c, err := p.uplink.Open(t.Context(), DoorAPI)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			served++
		}
	}
	if served != peerStreams-1 { // one stream is the link's own
		t.Errorf("%d streams were served, the limit is %d", served, peerStreams)
	}
	if !p.links.Up(p.id) || p.links.Count() != 1 {
		t.Error("the link is down")
	}
}

// TestManyOfTheService: the agent takes far more streams of the service's than the service takes of an agent's, also
// when all are asked for at once.
func TestManyOfTheService(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorSSH: func(_ context.Context, c net.Conn) {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}})
		var asking sync.WaitGroup
		var mu sync.Mutex
		var open []net.Conn
		for range 8 * peerStreams {
			asking.Go(func() {
				c, err := p.links.Dial(t.Context(), p.id, DoorSSH)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
				if _, err := c.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		for _, c := range open {
			_ = c.Close()
		}
	})
}

// A peer that opens streams and never ends them loses its link.
func TestStreamFloodDropsTheLink(t *testing.T) {
	_, c := greeted(t)
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, c) })
	for n := uint32(1); ; n += 2 {
		if n > 1<<20 {
			t.Fatal("a million streams, and the link is still up")
		}
		if _, err := c.Write(frame(1, 1, n, 0)); err != nil {
			break
		}
	}
	reading.Wait()
}

// The socket is its owner's alone; and were its mode changed, the kernel still says who connects.
func TestOnlyTheWorkloadsUser(t *testing.T) {
	testenv.Need(t, testenv.Root)
	p := &pair{id: "s-x", socket: socketDir(t) + "/s"}
	p.links = New(Config{Logger: slog.New(slog.DiscardHandler)})
	if err := p.links.Open(p.id, p.socket, 4711); err != nil {
		t.Fatal(err)
	}
	run(t, p.links.Run)
	st, err := os.Stat(p.socket)
	if err != nil || st.Sys().(*syscall.Stat_t).Uid != 4711 || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %+v, %v", st, err)
	}
	if err := errors.Join(os.Chmod(p.socket, 0o666), os.Chmod(filepath.Dir(p.socket), 0o755)); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]bool{4711: true, 4712: false, 0: true} {
		if err := greetAs(uid, p.socket); (err == nil) != want {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
}

// greetAs connects from a thread of another user's.
func greetAs(uid int, socket string) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			result <- errno
			return
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			err = errors.Join(greet(c), c.Close())
		}
		result <- err
	}()
	return <-result
}

// Changed tells each change once, in order; a replaced connection is told as up again.
func TestChanged(t *testing.T) {
	p := &pair{id: "s-x", socket: socketDir(t) + "/s"}
	told := make(chan bool, 16)
	p.serve(t, func(_ string, up bool) { told <- up })
	agent := func() func() {
		return run(t, NewUplink(UplinkConfig{Dial: p.dial, Logger: slog.New(slog.DiscardHandler)}).Run)
	}
	stop := agent()
	got := []bool{<-told}
	stop()
	got = append(got, <-told)
	agent()
	got = append(got, <-told)
	p.stop()
	got = append(got, <-told)
	if want := []bool{true, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// paused is a connection that can be stopped as a frozen container is: nothing is lost, nothing moves.
type paused struct {
	net.Conn
	gate   chan struct{} // holds one token while the connection runs
	closed chan struct{}
	once   sync.Once
}

func (p *paused) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Conn.Close()
}

func (p *paused) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	select {
	case token := <-p.gate:
		p.gate <- token
		return n, err
	case <-p.closed:
		return 0, net.ErrClosed
	}
}

// A process of its own for each: the multiplexer shares timers between links, which a bubble of false time must not
// meet.
func TestPause(t *testing.T) {
	const chosen = "SLIPWAY_TEST_PAUSE"
	if d, err := time.ParseDuration(os.Getenv(chosen)); err == nil {
		synctest.Test(t, func(t *testing.T) { fmt.Printf("alive=%v\n", survives(t, d)) })
		return
	}
	for pause, lives := range map[time.Duration]bool{time.Minute: true, 10 * time.Minute: false} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPause$")
		c.Env = append(os.Environ(), chosen+"="+pause.String())
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, fmt.Appendf(nil, "alive=%v\n", lives)) {
			t.Errorf("after a pause of %v, want alive=%v: %v\n%s", pause, lives, err, out)
		}
	}
}

// survives reports whether an idle link outlives a pause of the agent.
func survives(t *testing.T, pause time.Duration) bool {
	a, b := net.Pipe()
	frozen := &paused{Conn: b, gate: make(chan struct{}, 1), closed: make(chan struct{})}
	frozen.gate <- struct{}{}
	log := slog.New(slog.DiscardHandler)
	nothing := func(_ context.Context, _ Door, c *Conn) { _ = c.Close() }
	service, err := newMux(a, "s-x", false, log, nil, nothing)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := newMux(frozen, "", true, log, nil, nothing)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { service.serve(ctx) })
	work.Go(func() { agent.serve(ctx) })
	time.Sleep(5 * time.Minute)
	<-frozen.gate
	time.Sleep(pause)
	frozen.gate <- struct{}{}
	synctest.Wait()
	lives := !service.session.IsClosed()
	cancel()
	work.Wait()
	return lives
}

func FuzzFrames(f *testing.F) {
	f.Add(slices.Concat(frame(typeData, 1, 1, 3), []byte("abc"), frame(typePing, 1, 0, 1)), 5)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		now := func() time.Time { return time.Time{} }
		var whole, halves frames
		first := whole.pass(b, now)
		cut = min(max(cut, 0), len(b))
		second := halves.pass(b[:cut], now)
		if second == nil {
			second = halves.pass(b[cut:], now)
		}
		if (first == nil) != (second == nil) {
			t.Errorf("at once: %v, in two: %v", first, second)
		}
		if first == nil && whole.skip != halves.skip {
			t.Errorf("at once %d bytes to come, in two %d", whole.skip, halves.skip)
		}
	})
}

// FuzzLink feeds a link whatever comes after the hello: it must end, and not panic.
func FuzzLink(f *testing.F) {
	f.Add(slices.Concat(frame(1, 1, 1, 0), frame(typeData, 0, 1, 1), []byte("s")))
	f.Add(frame(3, 0, 0, 9))
	f.Fuzz(func(_ *testing.T, b []byte) {
		a, peer := net.Pipe()
		m, err := newMux(a, "s-x", false, slog.New(slog.DiscardHandler), newUnread(newUnreadBook(), "x"), func(_ context.Context, _ Door, c *Conn) { _ = c.Close() })
		if err != nil {
			return
		}
		var work sync.WaitGroup
		work.Go(func() { m.serve(context.Background()) })
		work.Go(func() { _, _ = io.Copy(io.Discard, peer) })
		_, _ = peer.Write(b)
		_ = peer.Close()
		work.Wait()
	})
}

// TestUnreadBytesDropTheLink: what agents of one user have sent over several links, and nobody reads, is bounded; what
// is read is not counted.
func TestUnreadBytesDropTheLink(t *testing.T) {
	user := func(id string) string { return map[string]string{"s-1": "alice", "s-2": "alice", "s-3": "bob"}[id] }
	links := New(Config{Logger: slog.New(slog.DiscardHandler), User: user})
	run(t, links.Run)
	s := links.Streams(DoorAPI) // nobody takes them
	t.Cleanup(func() { _ = s.Close() })
	connect := func(id string) net.Conn {
		path := socketDir(t) + "/s"
		if err := links.Open(id, path, os.Getuid()); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := greet(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	flood := func(c net.Conn, streams int) (sent int) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		body := make([]byte, window-1)
		for n := range uint32(streams) {
			for _, b := range [][]byte{append(frame(typeData, 1, 2*n+1, 1), byte(DoorAPI)), append(frame(typeData, 0, 2*n+1, window-1), body...)} {
				if _, err := c.Write(b); err != nil {
					return sent
				}
			}
			sent += window
		}
		return sent
	}
	one, two, other := connect("s-1"), connect("s-2"), connect("s-3")
	if sent := flood(one, 100); sent != 100*window {
		t.Errorf("the first link was cut after %d bytes, which are within the bounds", sent)
	}
	if sent := flood(two, 100); sent > userUnread {
		t.Errorf("two links of a user have %d bytes unread", sent+100*window)
	}
	if sent := flood(other, 100); sent != 100*window {
		t.Errorf("another user's link was cut after %d bytes", sent)
	}
	_, _, _ = one.Close(), two.Close(), other.Close()
	testenv.Until(t, "what links that have ended had is counted no more", testenv.Hang, func() bool {
		links.unread.mu.Lock()
		defer links.unread.mu.Unlock()
		return len(links.unread.users) == 0
	})
}

// TestReadBytesAreNotCounted: however much passes, only what waits counts.
func TestReadBytesAreNotCounted(t *testing.T) {
	p := newPair(t, nil)
	l := p.links.Streams(DoorAPI)
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan int64, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- 0
			return
		}
		n, _ := io.Copy(io.Discard, c)
		_ = c.Close()
		got <- n
	}()
	c, err := p.uplink.Open(t.Context(), DoorAPI)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 * userUnread >> 20 {
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.Close()
	if n := <-got; n != 4*userUnread {
		t.Errorf("%d bytes came", n)
	}
	p.links.unread.mu.Lock()
	defer p.links.unread.mu.Unlock()
	if left := p.links.unread.users[p.id]; left > 1<<10 {
		t.Errorf("%d bytes count, and all were read", left)
	}
}
