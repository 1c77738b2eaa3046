package htcondor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner/batch/command"
)

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
		s := inMemory(t, Config{}, func(_ context.Context, c command.Command) ([]byte, error) {
			if c.Name == tc.command {
				return nil, tc.err
			}
			return []byte("slipway.test"), nil
		})
		s.cfg.Domain = ""
		if _, err := s.mint(t.Context(), "alice"); !errs.Is(err, tc.want) || strings.Contains(fmt.Sprint(err), "password") != (name == "no key") {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
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
	tokens.refused("alice", &command.Failure{Stderr: "the disk is full"})
	tokens.refused("bob", &command.Failure{Stderr: "Failed to authenticate"})
	again("when something else was wrong", 3)
	tokens.refused("alice", errs.New(errs.Unavailable, "no: %w", &command.Failure{Stderr: "ERROR: AUTHENTICATE:1003:Failed to authenticate with any method"}))
	again("when it was refused", 4)
	for _, login := range []string{"", "..", "a/b", "a b", "-x", strings.Repeat("a", 100)} {
		if at, err := tokens.of(t.Context(), login); err == nil {
			t.Errorf("%q has a token in %s", login, at)
		}
	}
}
