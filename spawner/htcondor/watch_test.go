package htcondor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/htcondor/commands"
)

// TestWatch: each change is told once, none while the queue does not answer, and what changed meanwhile after it does
// again.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var jobs []job
		var down error
		set := func(err error, now ...job) {
			mu.Lock()
			defer mu.Unlock()
			jobs, down = now, err
		}
		b := inMemory(t, Config{Dir: "/d", PollEvery: 5 * time.Second}, nil)
		b.queue = newQueue(func(context.Context) ([]job, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(jobs), down
		}, 0)
		one, two := job{ID: "j-1", Status: idle}, job{ID: "j-2", Proc: 1, Status: idle}
		runs := job{ID: "j-1", Status: running, Shadows: 1}
		set(nil, one, two)
		var told []spawner.ID
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Watch(ctx, func(id spawner.ID) { told = append(told, id) }) }()
		step := func(what string, want ...spawner.ID) {
			t.Helper()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			slices.Sort(told)
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %q, want %q", what, told, want)
			}
			told = nil
		}
		step("at first")
		set(nil, runs, two)
		step("one runs", "j-1")
		step("nothing new")
		set(errors.New("down"))
		step("down")
		set(nil, two)
		step("gone meanwhile", "j-1")
		set(nil)
		step("all gone", "j-2")
		set(nil, one)
		step("a new one", "j-1")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
}

// TestOneLookForAll: a look that began late enough serves all who ask, and none that began too early.
func TestOneLookForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		q := newQueue(func(context.Context) ([]job, error) {
			time.Sleep(time.Second)
			looks++
			return nil, nil
		}, 0)
		var wg sync.WaitGroup
		ask := func(after time.Duration) {
			wg.Go(func() {
				time.Sleep(after)
				asked := time.Now()
				if s, err := q.since(t.Context(), asked); err != nil || s.begun.Before(asked) {
					t.Errorf("asked at %v, it is told of %+v, %v", asked, s, err)
				}
			})
		}
		for range 50 {
			ask(0)
			ask(500 * time.Millisecond) // these need a second look, which one of them begins when the first has ended
		}
		wg.Wait()
		if looks != 2 {
			t.Errorf("%d looks", looks)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.since(ended, time.Now().Add(-time.Minute)); err != nil {
			t.Errorf("what is known is not told: %v", err)
		}
	})
}

// TestFailedLooks: while the queue does not answer, it is not asked again by all who come, but by who must know it now.
func TestFailedLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, down := 0, errors.New("down")
		q := newQueue(func(context.Context) ([]job, error) {
			time.Sleep(time.Minute)
			looks++
			return nil, down
		}, 0)
		const every = 5 * time.Second
		since := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		look := func(t0 time.Time, want error, wantLooks int) {
			t.Helper()
			if _, err := q.since(t.Context(), t0); !errors.Is(err, want) || looks != wantLooks {
				t.Errorf("%v after %d looks, want %v after %d", err, looks, want, wantLooks)
			}
		}
		for range 10 {
			look(since(every), down, 1)
		}
		look(time.Now(), down, 2)
		time.Sleep(every - time.Nanosecond)
		look(since(every), down, 2)
		time.Sleep(time.Nanosecond)
		look(since(every), down, 3)
		down = nil
		look(since(every), q.failure.err, 3)
		look(time.Now(), nil, 4)
		look(since(2*time.Minute), nil, 4)
	})
}

// TestMintFails: that a command did not answer is not taken for a key that is not there.
func TestMintFails(t *testing.T) {
	for name, tc := range map[string]struct {
		command string
		err     error
		want    errs.Kind
	}{
		"no answer":               {"condor_token_create", errs.New(errs.Unavailable, "HTCondor did not answer in time"), errs.Unavailable},
		"no key":                  {"condor_token_create", errors.New("cannot read the key"), errs.Missing},
		"no answer on the domain": {"condor_config_val", errs.New(errs.Unavailable, "it was ended from outside"), errs.Unavailable},
		"no domain":               {"condor_config_val", errors.New("not defined: UID_DOMAIN"), errs.Missing},
	} {
		b := inMemory(t, Config{}, func(_ context.Context, c commands.Command) ([]byte, error) {
			if c.Name == tc.command {
				return nil, tc.err
			}
			return []byte("slipway.test"), nil
		})
		b.cfg.Domain = ""
		if _, err := b.mint(t.Context(), "alice"); !errs.Is(err, tc.want) || strings.Contains(fmt.Sprint(err), "password") != (name == "no key") {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// TestBatches: what comes while others are done is done next, together; who gives up before is left out.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := newBatcher(func(_ context.Context, all []*wish[int]) {
			sizes = append(sizes, len(all))
			for _, w := range all {
				if w.what == 13 {
					w.err = errors.New("unlucky")
				}
			}
			time.Sleep(10 * time.Second)
		})
		var wg sync.WaitGroup
		join := func(n int, after, patience time.Duration, want string) {
			wg.Go(func() {
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, err := b.join(ctx, n); fmt.Sprint(err) != want {
					t.Errorf("%d: %v, want %s", n, err, want)
				}
			})
		}
		for i := range 20 {
			want := "<nil>"
			if i == 13 {
				want = "unlucky"
			}
			join(i, 0, time.Hour, want)
		}
		join(100, 3*time.Second, time.Second, context.DeadlineExceeded.Error()) // the first of the second batch, whose turn it would be
		for i := range 5 {
			join(200+i, 4*time.Second, time.Hour, "<nil>")
		}
		wg.Wait()
		if !slices.Equal(sizes, []int{20, 5}) {
			t.Errorf("batches of %v", sizes)
		}
		arrived := b.announce()
		begun := time.Now()
		wg.Go(func() {
			time.Sleep(time.Second)
			arrived()
			arrived()
		})
		if _, err := b.join(t.Context(), 1); err != nil || time.Since(begun) < 11*time.Second {
			t.Errorf("it did not wait for who was announced: %v, %v", time.Since(begun), err)
		}
		wg.Wait()
	})
}

// TestTokens: a token is made once in half its life, lies in a file of root's alone, and is of the one whose it is to
// be.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	made := 0
	tokens := newTokens(dir, func(_ context.Context, login string) (string, error) {
		made++
		return "token of " + login, nil
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := tokens.of(t.Context(), "alice"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	at, err := tokens.of(t.Context(), "alice")
	must(t, err)
	data, err := os.ReadFile(filepath.Join(at, "token"))
	must(t, err)
	info, err := os.Stat(filepath.Join(at, "token"))
	must(t, err)
	if made != 1 || string(data) != "token of alice" || info.Mode().Perm() != 0o600 {
		t.Errorf("%d made, the last %q %v", made, data, info.Mode())
	}
	again := func(what string, want int) {
		t.Helper()
		for range 2 {
			if _, err := tokens.of(t.Context(), "alice"); err != nil || made != want {
				t.Errorf("%s: %d made, %v", what, made, err)
			}
		}
	}
	tokens.held["alice"].made = time.Now().Add(-tokenLife / 2)
	again("after half its life", 2)
	tokens.held["alice"].made = time.Now().Round(0).Add(time.Hour)
	again("when the clock was set back", 3)
	tokens.refused("alice", &commands.Failure{Stderr: "the disk is full"})
	tokens.refused("bob", &commands.Failure{Stderr: "Failed to authenticate"})
	again("when something else was wrong", 3)
	tokens.refused("alice", errs.New(errs.Unavailable, "no: %w", &commands.Failure{Stderr: "ERROR: AUTHENTICATE:1003:Failed to authenticate with any method"}))
	again("when it was refused", 4)
	for _, login := range []string{"", "..", "a/b", "a b", "-x", strings.Repeat("a", 100)} {
		if at, err := tokens.of(t.Context(), login); err == nil {
			t.Errorf("%q has a token in %s", login, at)
		}
	}
}
