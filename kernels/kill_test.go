package kernels_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/testenv"
	"slipway/kernels"
	"slipway/spawner"
)

const killedDir = "SLIPWAY_TEST_KILLED_DIR" // tells the process that is to be killed where its sockets are

// TestServiceToKill is no test: it is the service of the tests below, in a process of its own.
func TestServiceToKill(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("it is run by other tests")
	}
	journal, err := kernels.NewJournal(filepath.Join(dir, "journal"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "service"))
	l, err := net.Listen("unix", filepath.Join(dir, "service"))
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	s := newSiteOn(t, l, http.DefaultClient, func(c *kernels.Config) {
		c.Journal = journal
		c.Dial = func(ctx context.Context, _ spawner.ID) (net.Conn, error) {
			return d.DialContext(ctx, "unix", filepath.Join(dir, "agent"))
		}
	})
	if _, err := s.StartKernel(t.Context(), hers, spawner.KernelRequest{ID: chosen, Launch: "one"}); err != nil {
		t.Fatal(err)
	}
	select {}
}

// mortal is a service that can be killed, with the agent of its only kernel, which outlives it.
type mortal struct {
	*site
	dir     string
	agent   *agent
	process *exec.Cmd
	ways    atomic.Int32 // from it to the agent
}

func newMortal(t *testing.T) *mortal {
	dir, err := os.MkdirTemp("", "kill") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	m := &mortal{dir: dir, agent: newAgent()}
	go m.listen(l)
	var d net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", filepath.Join(dir, "service"))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	m.site = &site{t, newWorld(), "http://slipway/kernels", client, nil}
	t.Cleanup(m.kill)
	m.serve()
	return m
}

// listen serves the ways to the agent, and cuts off those that come while it is away.
func (m *mortal) listen(l net.Listener) {
	a := m.agent
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		away := a.away
		if !away {
			a.conns = append(a.conns, c)
		}
		a.mu.Unlock()
		if away {
			_ = c.Close()
			continue
		}
		m.ways.Add(1)
		go func() { defer m.ways.Add(-1); a.serve(c) }()
	}
}

func (m *mortal) serve() {
	m.Helper()
	m.process = exec.Command(os.Args[0], "-test.run=^TestServiceToKill$", "-test.timeout=10m")
	m.process.Env = append(os.Environ(), killedDir+"="+m.dir)
	if err := m.process.Start(); err != nil {
		m.Fatal(err)
	}
	testenv.Until(m.T, "the service has its kernel", long, func() bool {
		r, err := http.NewRequestWithContext(m.Context(), http.MethodGet, m.url+"/api/kernels/"+chosen, nil)
		if err != nil {
			m.Fatal(err)
		}
		r.Header.Set("Authorization", "token alice")
		res, err := m.http.Do(r)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// kill returns when the agent has read all that was sent to it.
func (m *mortal) kill() {
	_ = m.process.Process.Kill()
	_ = m.process.Wait()
	testenv.Until(m.T, "the agent has read all", long, func() bool { return m.ways.Load() == 0 })
}

// comes opens the websocket of a client, as one that comes again.
func (m *mortal) comes() *browser {
	m.Helper()
	b := m.open(chosen, "one")
	b.read()
	return b
}

// kept returns the names of the journal's files.
func (m *mortal) kept() (names []string) {
	m.Helper()
	all, err := os.ReadDir(filepath.Join(m.dir, "journal"))
	if err != nil && !os.IsNotExist(err) {
		m.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// Whatever is the matter with the kernel when the service is killed: what that has heard of a client runs once, in its
// order.
func TestCellsOfAKilledService(t *testing.T) {
	m := newMortal(t)
	states := []struct {
		name string
		is   func(*agent)
	}{
		{"well", func(*agent) {}},
		{"away", (*agent).leave},
		{"broken", func(a *agent) { a.broken = true }},
		{"silent", func(a *agent) { a.silent = true }},
	}
	rounds := 12
	if !testing.Short() {
		rounds = 52
	}
	for round := range rounds {
		state := states[round%len(states)]
		b := m.comes()
		before, after := fmt.Sprint("before ", round), fmt.Sprint("after ", round)
		b.say(ask(before))
		b.untilCode(before)
		m.agent.taken()
		m.agent.is(state.is)
		want := []string{}
		for i := range 1 + rand.IntN(5) {
			want = append(want, fmt.Sprint(round, " ", i))
			b.say(ask(want[i]))
		}
		if err := b.Ping(t.Context()); err != nil { // it has heard what came before
			t.Fatal(err)
		}
		m.kill()
		m.agent.is(func(a *agent) { a.away, a.broken, a.silent = false, false, false })
		m.serve()
		b = m.comes()
		b.say(ask(after))
		b.untilCode(after)
		if got := m.agent.taken(); !slices.Equal(got, append(want, after)) {
			t.Fatalf("round %d, %s: the kernel has run %q, and not %q", round, state.name, got, want)
		}
	}
	testenv.Until(t, "nothing is left", long, func() bool {
		m.agent.says("one", ask("what the kernel says")) // the service looks after the client
		return len(m.kept()) == 0
	})
}

// Of what is sent in the very moment when the service is killed it may have heard nothing. Nothing of that runs twice,
// or in another order.
func TestServiceIsKilledAtOnce(t *testing.T) {
	m := newMortal(t)
	sent, run := 0, 0
	for round := range 8 {
		b := m.comes()
		before, after := fmt.Sprint("before ", round), fmt.Sprint("after ", round)
		b.say(ask(before))
		b.untilCode(before)
		m.agent.taken()
		delay := time.Duration(rand.Int64N(int64(2 * time.Millisecond)))
		killed := make(chan struct{})
		time.AfterFunc(delay, func() { defer close(killed); m.kill() })
		want := []string{}
		for i := range 20 {
			want = append(want, fmt.Sprint(round, " ", i))
			_, data, err := b.codec.Encode(ask(want[i]))
			if err != nil {
				t.Fatal(err)
			}
			_ = b.Write(t.Context(), websocket.MessageText, data) // nobody may be there any more
		}
		<-killed
		m.serve()
		b = m.comes()
		b.say(ask(after))
		b.untilCode(after)
		got := m.agent.taken()
		got = got[:len(got)-1]
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("round %d: the kernel has run %q", round, got)
		}
		sent, run = sent+len(want), run+len(got)
	}
	t.Logf("of %d cells that were sent while the service was being killed %d ran, once each", sent, run)
}
