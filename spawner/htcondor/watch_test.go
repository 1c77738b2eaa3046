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
	"slipway/spawner/batch"
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
		b.queue = batch.NewQueue(func(context.Context) ([]job, error) {
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

// TestSlowLooks: who wants to see what there is waits for no more than a look, however slow the queue is.
func TestSlowLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 9 * time.Second
		b := inMemory(t, Config{Dir: "/d", PollEvery: 5 * time.Second}, nil)
		b.queue = batch.NewQueue(func(context.Context) ([]job, error) {
			time.Sleep(took)
			return []job{{ID: "j-1", Status: idle}}, nil
		}, batch.MinRest)
		for range 200 {
			begun := time.Now()
			o, err := b.Observe(t.Context(), "j-1")
			if err != nil || o.Existence != spawner.Queued || time.Since(begun) > took {
				t.Fatalf("%+v, %v after %v", o, err, time.Since(begun))
			}
			time.Sleep(700 * time.Millisecond)
		}
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
