package kernels_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"slipway/kernels/wire"
	"slipway/spawner"
)

// inBubble runs a test with a kernel of alice's and a client of it, in time that passes by itself.
func inBubble(t *testing.T, do func(s *site, a *agent, b *browser)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSiteInMemory(t, nil)
		id := s.start()
		b := s.open(id, "one")
		b.read()
		do(s, s.agent(spawner.ID("s-"+id)), b)
	})
}

// isRefused reads that a cell is answered by an error with these words.
func (b *browser) isRefused(cell wire.Message, words string) {
	b.Helper()
	for _, want := range []string{"iopub error", "shell execute_reply", "iopub status"} {
		m, err := b.next()
		switch {
		case err != nil || string(m.Channel)+" "+m.Type() != want || m.ParentID() != cell.ID():
			b.Errorf("%s: %s %s %s, %v", want, m.Channel, m.Type(), m.Content, err)
		case want != "iopub status" && !strings.Contains(string(m.Content), words):
			b.Errorf("%s says %s", want, m.Content)
		}
	}
}

// untilCode reads until the kernel has said something again that it was asked, and gives what came before in words.
func (b *browser) untilCode(want string) (words []string) {
	b.Helper()
	for {
		m, err := b.next()
		if err != nil {
			b.Fatalf("before %q: %v", want, err)
		}
		var c struct{ Code, Text string }
		_ = json.Unmarshal(m.Content, &c)
		if c.Text != "" {
			words = append(words, m.ParentID()+" "+c.Text)
		}
		if c.Code == want {
			return words
		}
	}
}

// taken returns what the kernel was asked, in order.
func (a *agent) taken() (codes []string) {
	for {
		select {
		case m := <-a.heard:
			var c struct{ Code string }
			_ = json.Unmarshal(m.Content, &c)
			codes = append(codes, c.Code)
		default:
			return codes
		}
	}
}

func TestCellsInTheAirComeOnce(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		b.say(ask("0"))
		b.untilCode("0")
		a.is(func(a *agent) { a.broken = true })
		for _, code := range []string{"1", "2", "3"} {
			b.say(ask(code))
		}
		synctest.Wait()
		a.is(func(a *agent) {
			if a.lost != 3 {
				t.Errorf("%d messages are in the air", a.lost)
			}
			a.broken = false
			a.cut()
		})
		if words := b.untilCode("3"); len(words) > 0 {
			t.Errorf("it was told %q, for a moment's sake", words)
		}
		b.say(ask("4"))
		b.untilCode("4")
		if got := a.taken(); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
			t.Errorf("the kernel has run %q", got)
		}
	})
}

// The way breaks before the agent's word comes that a cell is taken.
func TestCellIsNotRunTwice(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is(func(a *agent) { a.silent = true })
		b.say(ask("1"))
		b.untilCode("1")
		a.is(func(a *agent) { a.silent = false; a.cut() })
		b.say(ask("2"))
		b.untilCode("2")
		if got := a.taken(); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("the kernel has run %q", got)
		}
	})
}

// The user is told once, under the cell that waits, and when all is well again. Who waits for nothing is told nothing.
func TestWordsOfABrokenWay(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is((*agent).leave)
		time.Sleep(time.Minute)
		cell := ask("1")
		b.say(cell)
		time.Sleep(time.Minute)
		a.is(func(a *agent) { a.away = false })
		words := b.untilCode("1")
		if len(words) != 2 || !strings.HasPrefix(words[0], cell.ID()+" Slipway: the kernel is not reached") || !strings.HasPrefix(words[1], cell.ID()+" Slipway: the kernel is reached again") {
			t.Errorf("it was told %q", words)
		}
	})
}

// A link that has died without a word takes what is sent: the cell's user hears of it before the link is given up.
func TestWordsOfASilentWay(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is(func(a *agent) { a.broken = true })
		cell := ask("1")
		b.say(cell)
		if m, err := b.next(); err != nil || m.ParentID() != cell.ID() || !strings.Contains(string(m.Content), "is not reached") {
			t.Errorf("%+v, %v", m, err)
		}
		a.is(func(a *agent) { a.broken = false; a.cut() })
		if words := b.untilCode("1"); len(words) != 1 || !strings.Contains(words[0], "reached again") {
			t.Errorf("it was told %q", words)
		}
	})
}

func TestKernelEndsWhileTheWayIsBroken(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is((*agent).leave)
		cell := ask("1")
		b.say(cell)
		time.Sleep(time.Second)
		s.become(func(w *spawner.Workload) {
			w.Phase, w.Want, w.Outcome = spawner.Stopped, spawner.WantStopped, &spawner.Outcome{Failed: true, Reason: "out of memory"}
		})
		if m, err := b.next(); err != nil || !strings.Contains(string(m.Content), "out of memory") {
			t.Errorf("%+v, %v", m, err)
		}
		b.isRefused(cell, "has ended")
		if m, err := b.next(); err != nil || !strings.Contains(string(m.Content), "dead") {
			t.Errorf("%+v, %v", m, err)
		}
		if _, err := b.next(); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Error(err)
		}
	})
}

// What an agent does not say of what it takes is lost with the way, and the client is to know that.
func TestOlderAgent(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is(func(a *agent) { a.takes = false; a.cut() })
		b.say(ask("1"))
		b.untilCode("1")
		a.is((*agent).cut)
		if _, err := b.next(); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
			t.Error(err)
		}
	})
}

func TestCellsAtTheServicesEnd(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is(func(a *agent) { a.broken = true })
		cell := ask("1")
		b.say(cell)
		synctest.Wait()
		s.end()
		b.isRefused(cell, "run it again")
		if _, err := b.next(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Error(err)
		}
	})
}

// What is on its way at the service's end has some time to come.
func TestCellsThatAreTakenAtTheServicesEnd(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		hold := make(chan struct{})
		a.is(func(a *agent) { a.hold = hold })
		b.say(ask("1"))
		synctest.Wait()
		s.end()
		synctest.Wait()
		close(hold)
		for {
			m, err := b.next()
			if err != nil {
				if websocket.CloseStatus(err) != websocket.StatusGoingAway {
					t.Error(err)
				}
				break
			}
			if m.Type() == "error" {
				t.Errorf("it is said not to be taken: %s", m.Content)
			}
		}
		if got := a.taken(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the kernel has run %q", got)
		}
	})
}

// A browser comes again while its older websocket waits for the agent, or has gone: what it said by that is run, once.
func TestCellsOfALostWebsocket(t *testing.T) {
	for _, gone := range []bool{false, true} {
		inBubble(t, func(s *site, a *agent, b *browser) {
			a.is((*agent).leave)
			b.say(ask("1"))
			synctest.Wait()
			if gone {
				_ = b.CloseNow()
				time.Sleep(time.Minute)
			}
			again := s.open(s.work[0].Kernel, "one")
			again.read()
			again.say(ask("2"))
			synctest.Wait()
			a.is(func(a *agent) { a.away = false })
			again.untilCode("2")
			if _, err := b.next(); err == nil {
				t.Error("the older websocket goes on")
			}
			if got := a.taken(); !slices.Equal(got, []string{"1", "2"}) {
				t.Errorf("the kernel has run %q", got)
			}
		})
	}
}

// What was said long ago by one who has not come again is not run under the eyes of who comes then, and its room is
// given back.
func TestLostWebsocketIsForgotten(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is((*agent).leave)
		b.say(ask("1"))
		synctest.Wait()
		_ = b.CloseNow()
		time.Sleep(time.Hour)
		a.is(func(a *agent) { a.away = false })
		again := s.open(s.work[0].Kernel, "one")
		again.read()
		again.say(ask("2"))
		again.untilCode("2")
		if got := a.taken(); !slices.Equal(got, []string{"2"}) {
			t.Errorf("the kernel has run %q", got)
		}
	})
}

// An agent that takes no more clients is heard in the notebook, and not asked without end.
func TestRefusalIsTold(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is(func(a *agent) { a.refuses = "the kernel has 32 clients already"; a.cut() })
		if m, err := b.next(); err != nil || m.Type() != "stream" || !strings.Contains(string(m.Content), "32 clients") {
			t.Errorf("%+v, %v", m, err)
		}
		if _, err := b.next(); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
			t.Error(err)
		}
	})
}

// An output that cannot be read is left out, and told; it would come again and again.
func TestOutputThatCannotBeRead(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		a.is(func(a *agent) { a.journals["one"] = [][]byte{[]byte("none of the framings has this")} })
		b.say(ask("1"))
		if words := b.untilCode("1"); len(words) != 1 || !strings.Contains(words[0], "left out") {
			t.Errorf("it was told %q", words)
		}
	})
}

// A cell that waits for a slice is told how far that is.
func TestWordsWhileAKernelWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSiteInMemory(t, nil)
		s.slow = true
		b := s.open(s.start(), "one")
		b.read()
		time.Sleep(time.Minute)
		cell := ask("1")
		b.say(cell)
		time.Sleep(time.Minute)
		s.become(func(w *spawner.Workload) { w.Phase = spawner.Running })
		if words := b.untilCode("1"); len(words) != 1 || words[0] != cell.ID()+" Slipway: 1 before it\n" {
			t.Errorf("it was told %q", words)
		}
	})
}
