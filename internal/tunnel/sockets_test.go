package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// A process of its own for what is killed: a part that ends by itself says so.
func TestKilledIsNoEnd(t *testing.T) {
	const role = "SLIPWAY_TEST_KILLED"
	if carrier, socket, ok := strings.Cut(os.Getenv(role), " "); ok {
		beKilled(t, carrier, socket)
		return
	}
	for _, killed := range []string{"agent", "service"} {
		overEach(t, func(t *testing.T, carrier string) {
			t.Run(killed, func(t *testing.T) {
				p := &pair{id: "s-x", socket: socketDir(t) + "/s", dress: carriers[carrier]}
				c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledIsNoEnd$")
				c.Env = append(os.Environ(), role+"="+killed+"/"+carrier+" "+p.socket)
				ends := make(chan error, partsKilled)
				if killed == "agent" {
					p.serve(t, nil)
				} else {
					p.uplink = NewUplink(UplinkConfig{Dial: p.dial, Logger: slog.New(slog.DiscardHandler), Doors: map[Door]func(context.Context, net.Conn){
						DoorApp: func(_ context.Context, c net.Conn) { watch(c, ends) },
					}})
					run(t, p.uplink.Run)
				}
				said, err := c.StdoutPipe()
				if err == nil {
					err = c.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				if killed == "agent" {
					p.wait(t)
					for range partsKilled {
						c, err := p.links.Dial(t.Context(), p.id, DoorApp)
						if err != nil {
							t.Fatal(err)
						}
						go watch(c, ends)
					}
				}
				for range partsKilled {
					if err := <-ends; err != errBegun {
						t.Fatal(err)
					}
				}
				_ = c.Process.Kill()
				for range partsKilled {
					if err := <-ends; err == nil {
						t.Error("what was cut has ended as if it were whole")
					}
				}
				_, _ = io.Copy(io.Discard, said)
				_ = c.Wait()
			})
		})
	}
}

const partsKilled = 40

var errBegun = errors.New("begun")

// watch says that something has come, and then how it ended.
func watch(c net.Conn, ends chan<- error) {
	_, err := io.ReadFull(c, make([]byte, 1<<10))
	if err == nil {
		err = errBegun
	}
	ends <- err
	_, err = io.Copy(struct{ io.Writer }{io.Discard}, c)
	_ = c.Close()
	ends <- err
}

// beKilled is the part that sends without end.
func beKilled(t *testing.T, role, socket string) {
	role, carrier, _ := strings.Cut(role, "/")
	p := &pair{id: "s-x", socket: socket, dress: carriers[carrier]}
	sends := func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, endless{}) }
	if role == "agent" {
		p.uplink = NewUplink(UplinkConfig{Dial: p.dial, Logger: slog.New(slog.DiscardHandler), Doors: map[Door]func(context.Context, net.Conn){DoorApp: sends}})
		run(t, p.uplink.Run)
	} else {
		p.serve(t, nil)
		p.wait(t)
		for range partsKilled {
			c, err := p.links.Dial(t.Context(), p.id, DoorApp)
			if err != nil {
				t.Fatal(err)
			}
			go sends(t.Context(), c)
		}
	}
	<-t.Context().Done()
}

// lined connects as a sound agent that takes sockets, and leaves the rest to the test.
func lined(t *testing.T) (*pair, *sockets) {
	t.Helper()
	p := &pair{id: "s-x", socket: socketDir(t) + "/s"}
	p.serve(t, nil)
	c, err := p.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := greetService(c)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	t.Cleanup(s.close)
	p.wait(t)
	return p, s
}

// down waits until the pair's link is.
func (p *pair) down(t *testing.T) {
	t.Helper()
	testenv.Until(t, "the link is down", testenv.Hang, func() bool { return !p.links.Up(p.id) })
	if n := p.links.Count(); n != 0 {
		t.Errorf("%d agents are connected, want none", n)
	}
}

// What is no message costs the link, and nothing else.
func TestGarbageOnTheLine(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": {}, "short": []byte("x"), "long": make([]byte, 1<<10), "unknown": message{kind: '?'}.bytes(), "ready again": message{kind: lineReady}.bytes(),
		"a stream of the agent's": message{kind: lineOpen, number: 1}.bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			p, s := lined(t)
			open, err := p.links.Dial(t.Context(), p.id, DoorApp)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.line.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := open.Read(make([]byte, 1)); !errs.Is(err, errs.Unavailable) {
				t.Errorf("a stream of the link: %v", err)
			}
			p.down(t)
		})
	}
}

// What the agent says of streams that are not there any more is nothing. What it says without end, or of what never
// was, costs its link.
func TestWordsWithoutStreams(t *testing.T) {
	const streams = 100
	for name, tc := range map[string]struct {
		words uint64 // about each
		first uint64
		lives bool
	}{
		"as a sound one": {mostWords, 1, true}, "without end": {mostWords + 1, 1, false}, "of what never was": {1, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := lined(t)
			for range streams {
				c, err := p.links.Dial(t.Context(), p.id, DoorApp)
				if err != nil {
					t.Fatal(err)
				}
				s.accepted(t)
				_ = c.Close()
				s.told(t)
			}
			for n := range tc.words * streams {
				_ = s.send(message{kind: []byte{lineEnd, lineGone}[n%2], number: tc.first + n%streams}, nil)
			}
			if !tc.lives {
				p.down(t)
				return
			}
			c, err := p.links.Dial(t.Context(), p.id, DoorApp)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(s.accepted(t), "x")
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// told returns what the service says next, to the agent.
func (s *sockets) told(t *testing.T) message {
	t.Helper()
	b := make([]byte, lineSize)
	_, err := io.ReadFull(s.line, b)
	m, bad := parseMessage(b)
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	return m
}

// accepted takes, as the agent, the stream that the service has opened.
func (s *sockets) accepted(t *testing.T) *socketConn {
	t.Helper()
	taker := &taker{UnixConn: s.line}
	b := make([]byte, lineSize)
	if _, err := io.ReadFull(taker, b); err != nil {
		t.Fatal(err)
	}
	m, err := parseMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.take(taker, m.number)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An end without a word is none. Who never says that it was one loses the link.
func TestEndWithoutAWord(t *testing.T) {
	p, s := lined(t)
	k := p.links.find(p.id)
	k.current().sockets.patience = 50 * time.Millisecond
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	theirs := s.accepted(t)
	_, _ = io.WriteString(theirs, "half of it")
	_ = theirs.raw.CloseWrite()
	got, err := io.ReadAll(c)
	if string(got) != "half of it" || !errs.Is(err, errs.Unavailable) {
		t.Errorf("%q, %v", got, err)
	}
	p.down(t)
}

// A stream that the agent cannot take ends with an error, and the link stays.
func TestStreamIsNotTaken(t *testing.T) {
	p, s := lined(t)
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	theirs := s.accepted(t)
	_ = theirs.raw.Close()
	if err := s.send(message{kind: lineGone, number: theirs.number}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("read: %v", err)
	}
	if !p.links.Up(p.id) {
		t.Error("the link is down")
	}
}

// The agent says so when no socket comes with a stream, as where it may have no more files.
func TestAgentWithoutRoom(t *testing.T) {
	line, theirs, err := twoEnds(unix.SOCK_SEQPACKET)
	if err != nil {
		t.Fatal(err)
	}
	agents, err := connOf(theirs)
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	service, agent := newSockets(line), newSockets(agents)
	agent.accept = func(context.Context, Door, net.Conn) { t.Error("a stream without a socket was served") }
	var serving sync.WaitGroup
	serving.Go(func() { agent.run(t.Context(), func(f func()) bool { serving.Go(f); return true }) })
	_ = service.send(message{lineOpen, 7, DoorApp}, nil)
	b := make([]byte, lineSize)
	_, _ = io.ReadFull(line, b)
	if m, err := parseMessage(b); err != nil || m.kind != lineGone || m.number != 7 {
		t.Errorf("%v, %v", m, err)
	}
	service.close()
	agent.close()
	serving.Wait()
}

// An agent that takes no messages holds nobody up for ever: it loses its link.
func TestLineThatIsNotRead(t *testing.T) {
	p, _ := lined(t)
	p.links.find(p.id).current().sockets.patience = 50 * time.Millisecond
	for {
		c, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	p.down(t)
}

// Files that an agent sends are not taken, through whichever socket they come.
func TestNoFilesFromTheAgent(t *testing.T) {
	p, s := lined(t)
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	theirs := s.accepted(t)
	f, err := os.CreateTemp(t.TempDir(), "passed")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		other, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, _ = (&giver{theirs.raw, f}).Write([]byte("x"))
		_ = s.send(message{kind: lineEnd, number: other.(*socketConn).number}, f)
	}
	if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	_ = s.send(message{kind: lineEnd, number: theirs.number}, nil)
	<-c.(*socketConn).told // all before it has been read
	if n := open(t, f.Name()); n != 1 {
		t.Errorf("the file is open %d times", n)
	}
}

// open counts the files of this process that are open, of a name or of a kind.
func open(t *testing.T, name string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if strings.HasPrefix(to, name) {
			n++
		}
	}
	return n
}

// No socket stays when streams and links have ended, and none goes on to the programs that are started.
func TestSocketsAreClosed(t *testing.T) {
	before := open(t, "socket:")
	p := newPair(t, map[Door]func(context.Context, net.Conn){DoorApp: echo, DoorCode: func(_ context.Context, c net.Conn) { _ = c.Close() }})
	for range 50 {
		for _, door := range []Door{DoorApp, DoorCode, DoorHub} {
			c, err := p.links.Dial(t.Context(), p.id, door)
			if err != nil {
				t.Fatal(err)
			}
			if door == DoorApp {
				roundTrip(t, c)
			} else if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
				t.Errorf("door %c: %q, %v", door, b, err)
			}
			_ = c.Close()
		}
	}
	held, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range list {
		var fd int
		_, _ = fmt.Sscan(filepath.Base(name), &fd)
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if to, _ := os.Readlink(name); err == nil && fd > 2 && strings.HasPrefix(to, "socket:") && flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d goes on to programs", fd)
		}
	}
	p.stop()
	if _, err := io.ReadAll(held); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a stream of a link that was closed: %v", err)
	}
	testenv.Until(t, "no more sockets are open than before", testenv.Hang, func() bool { return open(t, "socket:") <= before })
}

// What goes between a stream and TCP has its ends.
func TestBetweenTCP(t *testing.T) {
	overEach(t, func(t *testing.T, carrier string) {
		streams := make(chan net.Conn, 1)
		p := newPairOver(t, carrier, map[Door]func(context.Context, net.Conn){DoorApp: func(_ context.Context, c net.Conn) { streams <- c }})
		near, err := p.links.Dial(t.Context(), p.id, DoorApp)
		if err != nil {
			t.Fatal(err)
		}
		far, app, client := <-streams, (*net.TCPConn)(nil), (*net.TCPConn)(nil)
		app, client = twoTCP(t)
		var both sync.WaitGroup
		both.Go(func() {
			if n, err := io.Copy(app, far); n != 7 || err != nil {
				t.Errorf("to TCP: %d, %v", n, err)
			}
			_ = app.CloseWrite()
		})
		_, _ = io.WriteString(near, "thither")
		_ = near.(interface{ CloseWrite() error }).CloseWrite()
		if b, err := io.ReadAll(client); string(b) != "thither" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		both.Go(func() {
			if n, err := far.(io.ReaderFrom).ReadFrom(app); n != 6 || err != nil {
				t.Errorf("from TCP: %d, %v", n, err)
			}
			_ = far.Close()
		})
		_, _ = io.WriteString(client, "hither")
		_ = client.Close()
		if b, err := io.ReadAll(near); string(b) != "hither" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		both.Wait()
		_ = near.Close()
	})
}

func twoTCP(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

// An agent of an earlier version is served by the multiplexer.
func TestOtherVersionOfTheAgent(t *testing.T) {
	p := newPairOver(t, "multiplexer", map[Door]func(context.Context, net.Conn){DoorApp: echo})
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	if _, is := c.(*Conn); !is || p.links.find(p.id).current().sockets != nil {
		t.Errorf("the stream is a %T", c)
	}
	roundTrip(t, c)
}

// The service opens so many and no more; those that are closed do not count.
func TestMostOfTheService(t *testing.T) {
	p := newPair(t, map[Door]func(context.Context, net.Conn){DoorApp: echo})
	s := p.links.find(p.id).current().sockets
	s.mu.Lock()
	for n := range uint64(ownStreams) {
		s.conns[1<<32+n] = &socketConn{} // the machine of a test may not open so many files
	}
	s.mu.Unlock()
	if _, err := p.links.Dial(t.Context(), p.id, DoorApp); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "2048") {
		t.Errorf("one more: %v", err)
	}
	s.mu.Lock()
	clear(s.conns)
	s.mu.Unlock()
	c, err := p.links.Dial(t.Context(), p.id, DoorApp)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c)
}

// A service of an earlier version offers no sockets; the agent goes on without.
func TestOtherVersionOfTheService(t *testing.T) {
	ours, theirs, err := twoEnds(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	service, err := connOf(theirs)
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	defer ours.Close()
	var greeting sync.WaitGroup
	greeting.Go(func() {
		if err := greet(service); err != nil {
			t.Error(err)
		}
	})
	if s, err := greetService(ours); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
	greeting.Wait()
}
