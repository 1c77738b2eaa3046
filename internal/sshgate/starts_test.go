package sshgate

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
	"slipway/internal/testenv"
)

// keepStarts changes how long starts are kept.
func (h *hall) keepStarts(d time.Duration) {
	h.gate.starts.mu.Lock()
	defer h.gate.starts.mu.Unlock()
	h.gate.starts.keep = d
}

// TestStarts: what nobody waits for is taken back once; at once where it was said, else a little later; and never what
// somebody waits for or what has come up.
func TestStarts(t *testing.T) {
	key := startKey{Owner{Hub: "main", User: "alice"}, "gpu10"}
	for name, tt := range map[string]struct {
		play    func(s *starts, leave func(st *start, l leaving))
		stopped time.Duration // when; 0: never
	}{
		"Ctrl-C": {func(s *starts, leave func(*start, leaving)) {
			leave(s.join(key), leaving{asked: true})
		}, time.Nanosecond},
		"lost": {func(s *starts, leave func(*start, leaving)) {
			leave(s.join(key), leaving{asked: true, lost: true})
		}, keepStart},
		"somebody else's": {func(s *starts, leave func(*start, leaving)) {
			leave(s.join(key), leaving{})
		}, 0},
		"another waits": {func(s *starts, leave func(*start, leaving)) {
			a := s.join(key)
			s.join(key)
			leave(a, leaving{asked: true})
		}, 0},
		"it is up": {func(s *starts, leave func(*start, leaving)) {
			a, b := s.join(key), s.join(key)
			leave(b, leaving{over: true})
			leave(a, leaving{asked: true})
		}, 0},
		"a second attempt": {func(s *starts, leave func(*start, leaving)) {
			leave(s.join(key), leaving{asked: true, lost: true})
			<-time.After(keepStart / 2)
			s.join(key)
		}, 0},
		"a second attempt gives up": {func(s *starts, leave func(*start, leaving)) {
			leave(s.join(key), leaving{asked: true, lost: true})
			<-time.After(keepStart / 2)
			leave(s.join(key), leaving{})
		}, keepStart/2 + time.Nanosecond},
		"a second attempt is lost": {func(s *starts, leave func(*start, leaving)) {
			leave(s.join(key), leaving{asked: true, lost: true})
			<-time.After(keepStart / 2)
			leave(s.join(key), leaving{lost: true})
		}, keepStart/2 + keepStart},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, stopped := time.Now(), []time.Duration{}
				g := &Gate{starts: newStarts()}
				stop := func(context.Context, string) { stopped = append(stopped, max(time.Since(begun), time.Nanosecond)) }
				tt.play(g.starts, func(st *start, l leaving) {
					if ctx, r := g.starts.leave(t.Context(), key, st, l); r != nil {
						g.work.Go(func() { g.takeBack(ctx, r, stop, slog.New(slog.DiscardHandler)) })
					}
				})
				g.work.Wait()
				want := tt.stopped.Truncate(time.Second)
				if len(stopped) > 1 || (len(stopped) == 1) != (tt.stopped > 0) || len(stopped) == 1 && stopped[0].Truncate(time.Second) != want {
					t.Errorf("stopped at %v, not %s", stopped, tt.stopped)
				}
				waiting := 0
				for _, st := range g.starts.all {
					waiting += st.waiting
				}
				if len(g.starts.all) > 0 && waiting == 0 {
					t.Error("a start is remembered for ever")
				}
			})
		})
	}
}

// TestWaitedForAgain: who comes while a start is being taken back keeps it.
func TestWaitedForAgain(t *testing.T) {
	key := startKey{server: "gpu10"}
	g := &Gate{starts: newStarts()}
	stop := func(ctx context.Context, _ string) {
		g.starts.join(key)
		<-ctx.Done()
	}
	st := g.starts.join(key)
	ctx, r := g.starts.leave(t.Context(), key, st, leaving{asked: true})
	g.takeBack(ctx, r, stop, slog.New(slog.DiscardHandler))
	if g.starts.all[key] != st || !st.ours {
		t.Error("it is nobody's any more")
	}
}

// TestInterrupt: a start that nobody waits for any more is taken back, for whoever was lost a little later; one that
// another waits for is not.
func TestInterrupt(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, c *ssh.Client, in io.Writer){
		"Ctrl-C":   func(t *testing.T, _ *ssh.Client, in io.Writer) { _, _ = in.Write([]byte("x\x03")) },
		"the line": func(t *testing.T, c *ssh.Client, _ io.Writer) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, nil)
			h.keepStarts(50 * time.Millisecond)
			begun := make(chan struct{}, 2)
			h.engine.begin = func(ctx context.Context, _ hubapi.ServerRequest, _ func(hubapi.Progress)) error {
				begun <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			other := h.alice("alice+gpu10")
			c := h.alice("alice+gpu10")
			<-begun
			<-begun
			s, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			var stderr testenv.Buffer
			s.Stderr = &stderr
			in, _ := s.StdinPipe()
			go func() { _ = s.RequestPty("xterm", 24, 80, nil); _ = s.Shell() }()
			eventually(t, "she is told", func() bool { return strings.Contains(stderr.String(), "slipway: your session is being started\r\n") })
			leave(t, c, in)
			_ = c.Wait()
			if name == "Ctrl-C" && !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("%q", stderr.String())
			}
			<-time.After(50 * time.Millisecond)
			if h.engine.seen(func(e *fakeEngine) bool { return len(e.stopped) > 0 }) {
				t.Error("another waits, and it was taken back")
			}
			_ = other.Close()
			eventually(t, "it is taken back", func() bool {
				return h.engine.seen(func(e *fakeEngine) bool { return len(e.stopped) == 1 && e.stopped[0] == "gpu10" })
			})
			for _, words := range []string{`audit="ssh start" of=alice err="context canceled" server=gpu10 key=SHA256:`, `audit="ssh start taken back" of=alice err=<nil> server=gpu10 key=SHA256:`} {
				eventually(t, words, func() bool { return strings.Contains(h.log.String(), words) })
			}
		})
	}
}

// TestSecondAttempt: a client that gives up early and comes again finds its start, and the log says that it was kept.
func TestSecondAttempt(t *testing.T) {
	h := open(t, nil)
	begun := make(chan struct{}, 2)
	h.engine.begin = func(ctx context.Context, _ hubapi.ServerRequest, _ func(hubapi.Progress)) error {
		begun <- struct{}{}
		if h.engine.seen(func(e *fakeEngine) bool { return len(e.started) > 1 }) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	first := h.alice("alice+gpu10")
	<-begun
	_ = first.Close()
	eventually(t, "it is kept", func() bool { return strings.Contains(h.log.String(), `msg="ssh start kept" user=alice`) })
	if out, _, _ := run(t, h.alice("alice+gpu10"), "cat", "hello"); out != "hello" {
		t.Errorf("%q", out)
	}
	if h.engine.seen(func(e *fakeEngine) bool { return len(e.stopped) > 0 }) || strings.Contains(h.log.String(), "taken back") {
		t.Error("it was taken back")
	}
}
