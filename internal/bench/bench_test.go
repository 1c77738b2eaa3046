package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// fakeHub is a Hub in memory: a start takes three seconds, and every call one millisecond.
type fakeHub struct {
	mu     sync.Mutex // guards all below
	others []string
	users  map[string]string // and what their server does: "", starting, up
	most   int               // calls under way at one time
	calls  int
	fail   func(what, user string) error
}

func newFakeHub() *fakeHub {
	return &fakeHub{users: map[string]string{}, fail: func(string, string) error { return nil }}
}

// do is one call: it takes a while and may fail.
func (h *fakeHub) do(ctx context.Context, what, user string, takes time.Duration, then func()) error {
	h.mu.Lock()
	h.calls++
	h.most = max(h.most, h.calls)
	fail := h.fail(what, user)
	h.mu.Unlock()
	clock.Sleep(ctx, takes)
	err := ctx.Err()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	if err == nil && fail == nil {
		then()
	}
	return errors.Join(err, fail)
}

func (h *fakeHub) Active(context.Context) ([]string, error) { return h.others, nil }

func (h *fakeHub) Create(ctx context.Context, users []string) error {
	return h.do(ctx, "create", users[0], time.Millisecond, func() {
		for _, u := range users {
			h.users[u] = ""
		}
	})
}

func (h *fakeHub) Token(ctx context.Context, user string) (secret.Text, error) {
	return secret.New("t-" + user), h.do(ctx, "token", user, time.Millisecond, func() {})
}

func (h *fakeHub) Start(ctx context.Context, user string) (bool, error) {
	return false, h.do(ctx, "start", user, time.Millisecond, func() { h.users[user] = "starting" })
}

func (h *fakeHub) Await(ctx context.Context, user string) error {
	return h.do(ctx, "await", user, 3*time.Second, func() { h.users[user] = "up" })
}

func (h *fakeHub) Visit(ctx context.Context, user string, token secret.Text) error {
	if token.Reveal() != "t-"+user {
		return errors.New("a token of somebody else")
	}
	return h.do(ctx, "visit", user, time.Millisecond, func() {})
}

func (h *fakeHub) Stop(ctx context.Context, user string) error {
	return h.do(ctx, "stop", user, time.Millisecond, func() { h.users[user] = "" })
}

func (h *fakeHub) Delete(ctx context.Context, user string) error {
	return h.do(ctx, "delete", user, time.Millisecond, func() { delete(h.users, user) })
}

func config(h Hub) Config {
	return Config{Hub: h, Users: 250, Concurrency: 50, Hold: time.Minute, Name: "abc"}
}

func TestALoadIsMeasuredAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		began := time.Now()
		r, err := Run(t.Context(), config(h))
		if err != nil || r.Up != 250 || r.MostUp != 250 || r.Failed() != 0 || r.Cut != "" {
			t.Fatalf("got %+v, %v", r, err)
		}
		if len(h.users) != 0 || h.most > 50 {
			t.Errorf("%d users are left, %d calls were under way at once", len(h.users), h.most)
		}
		ready := r.Steps[Ready]
		want := Spread{Count: 250, P50: 3001, P95: 3001, P99: 3001, Max: 3001}
		if d := cmp.Diff(want, ready.Spread); d != "" {
			t.Error(d)
		}
		if took := time.Since(began); took < 75*time.Second || took > 80*time.Second { // five rounds of 3 s, and the minute
			t.Errorf("took %s", took)
		}
	})
}

func TestStartsAreNotFasterThanTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(newFakeHub())
		cfg.Rate = 5
		r, err := Run(t.Context(), cfg)
		if err != nil || r.UpSeconds < 49.8+3 || r.UpSeconds > 54 {
			t.Errorf("up within %.1f s, %v", r.UpSeconds, err)
		}
	})
}

func TestFailuresAreCountedByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		h.fail = func(what, user string) error {
			switch {
			case what == "await" && strings.HasSuffix(user, "7"):
				return errs.New(errs.NoCapacity, "start %s: no room", user).With("come later")
			case what == "delete" && strings.HasSuffix(user, "0042"):
				return errors.New("it is stuck")
			}
			return nil
		}
		r, err := Run(t.Context(), config(h))
		if err != nil || r.Up != 225 || r.Failed() != 25+1+1 {
			t.Fatalf("got %+v, %v", r, err)
		}
		want := []string{"ready: 25 times: start USER: no room", "delete user: 1 times: it is stuck"}
		if d := cmp.Diff(want, r.Why()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"bench-abc-0042"}, r.Left); d != "" {
			t.Error(d)
		}
		if len(h.users) != 1 {
			t.Errorf("left: %v", h.users)
		}
	})
}

func TestAnInterruptedLoadIsClearedUp(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 2 * time.Second, 5 * time.Second, 30 * time.Second} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFakeHub()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(after, func() { cancel(errors.New("control-C")) })
				r, err := Run(ctx, config(h))
				if err != nil || r.Cut != "control-C" || len(r.Left) != 0 {
					t.Errorf("cut by %q, left %v, %v", r.Cut, r.Left, err)
				}
				if len(h.users) != 0 {
					t.Errorf("left at the Hub: %v", h.users)
				}
				if n := r.Failed(); n != 0 {
					t.Errorf("%d things count as failed that were only cut off: %v", n, r.Why())
				}
			})
		})
	}
}

func TestALoadThatTakesTooLongIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		cfg := config(h)
		cfg.Limit = 10 * time.Second
		r, err := Run(t.Context(), cfg)
		if err != nil || !strings.Contains(r.Cut, "longer than 10s") || len(h.users) != 0 {
			t.Errorf("cut by %q, left %v, %v", r.Cut, h.users, err)
		}
	})
}

func TestOthersAreNotDisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		h.others = []string{"alice"}
		_, err := Run(t.Context(), config(h))
		if !errs.Is(err, errs.Conflict) || len(h.users) != 0 {
			t.Errorf("got %v", err)
		}
		cfg := config(h)
		cfg.Shared = true
		if r, err := Run(t.Context(), cfg); err != nil || r.Up != cfg.Users {
			t.Errorf("with leave: %+v, %v", r, err)
		}
	})
}

func TestUsersThatCannotBeMadeEndTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		h.fail = func(what, user string) error {
			if what == "create" && strings.HasSuffix(user, "0100") {
				return errs.New(errs.Forbidden, "no")
			}
			return nil
		}
		_, err := Run(t.Context(), config(h))
		if !errs.Is(err, errs.Forbidden) || len(h.users) != 0 {
			t.Errorf("got %v, left %v", err, h.users)
		}
	})
}

func TestProgressIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(newFakeHub())
		var told []string
		cfg.Tell = func(s State) { told = append(told, s.String()) }
		if _, err := Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if len(told) < 30 || told[0] != "  2 s  starting  up 0 of 250, starting 50, stopped 0, failed 0" {
			t.Errorf("%d lines, first %q", len(told), told[0])
		}
	})
}

func TestWrongLoadsAreRefused(t *testing.T) {
	for field, edit := range map[string]func(*Config){
		"users":       func(c *Config) { c.Users = MostUsers + 1 },
		"rate":        func(c *Config) { c.Rate = -1 },
		"concurrency": func(c *Config) { c.Concurrency = 0 },
		"hold":        func(c *Config) { c.Hold = 2 * time.Hour },
		"limit":       func(c *Config) { c.Limit = 2 * time.Hour },
		"name":        func(c *Config) { c.Name = "A/b" },
	} {
		h := newFakeHub()
		cfg := config(h)
		edit(&cfg)
		_, err := Run(t.Context(), cfg)
		if e, ok := errors.AsType[*errs.Error](err); !ok || e.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestSpreadIsExact(t *testing.T) {
	var times Times
	if got := times.Spread(); got != (Spread{}) {
		t.Errorf("of nothing: %+v", got)
	}
	for i := range 1000 {
		times.Add(time.Duration(1000-i) * time.Millisecond)
	}
	want := Spread{Count: 1000, P50: 500, P95: 950, P99: 990, Max: 1000}
	if d := cmp.Diff(want, times.Spread()); d != "" {
		t.Error(d)
	}
}

func TestReasonsAreBounded(t *testing.T) {
	b := newBook(1, time.Time{})
	for i := range 100 {
		b.note(Visit, "u", 0, fmt.Errorf("error number %d", i))
	}
	s := b.report().Steps[Visit]
	if s.Failed != 100 || len(s.Reasons) != mostReasons+1 || s.Reasons["other reasons"] != 100-mostReasons {
		t.Errorf("got %+v", s)
	}
}
