package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// farm is the agents of workloads, whose ids begin with their owners.
type farm struct {
	mu   sync.Mutex
	sent map[string][]string // by workload: what it was brought
	fail error
	hang bool // it takes what it is sent and does not answer
	told []string
}

func (f *farm) owner(_ context.Context, id string) (string, error) {
	user, _, ok := strings.Cut(id, "-")
	if !ok {
		return "", errors.New("whose?")
	}
	return user, nil
}

func (f *farm) send(ctx context.Context, id string, files []File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hang {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return ctx.Err()
	}
	if f.fail != nil {
		return f.fail
	}
	var all []string
	for _, file := range files {
		all = append(all, file.Name+"="+file.Data.Reveal())
	}
	f.sent[id] = append(f.sent[id], strings.Join(all, " "))
	return nil
}

func (f *farm) tell(_ context.Context, id, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, id+": "+text)
}

func (f *farm) has(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[id]
}

func distributorOf(w *Manager) (*Distributor, *farm) {
	f := &farm{sent: map[string][]string{}}
	return NewDistributor(DistributorConfig{Manager: w, Owner: f.owner, Send: f.send, Tell: f.tell, Logger: slog.New(slog.DiscardHandler)}), f
}

// runs runs parts until the test ends.
func runs(t *testing.T, all ...func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	for _, run := range all {
		over.Go(func() { _ = run(ctx) })
	}
	return func() { cancel(); over.Wait() }
}

func TestDistributor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(time.Hour)
		w := managerOver(t, newDisk(), secret.NewBox(), f)
		c, farm := distributorOf(w)
		c.LinkChanged("alice-1", true) // before it runs
		stop := runs(t, w.Run, c.Run)
		defer stop()
		c.LinkChanged("bob-1", true)
		synctest.Wait()
		if got := fmt.Sprintf("%q %q", farm.has("alice-1"), farm.has("bob-1")); got != `[""] [""]` {
			t.Errorf("at first: %s", got) // what an agent may still have of before is taken away
		}
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := last(farm.has("alice-1")); got != "token=access-alice/1" {
			t.Errorf("brought %q", got)
		}
		<-time.After(50 * time.Minute)
		if got := last(farm.has("alice-1")); got != "token=access-alice/2" {
			t.Errorf("after it was renewed: %q", got)
		}
		if got := last(farm.has("bob-1")); got != "" {
			t.Errorf("bob has %q", got)
		}
		c.LinkChanged("alice-1", false)
		c.LinkChanged("alice-1", true)
		synctest.Wait()
		if got := farm.has("alice-1"); last(got) != "token=access-alice/2" || len(got) < 3 {
			t.Errorf("after the link came back: %q", got)
		}
		if err := w.Remove(t.Context(), "alice", "wlcg"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := last(farm.has("alice-1")); got != "" {
			t.Errorf("after it was removed: %q", got)
		}
	})
}

func last(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func TestDistributorTriesAgainAndTellsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(time.Hour)
		w := managerOver(t, newDisk(), secret.NewBox(), f)
		if _, err := w.PutRefresh(t.Context(), "alice", "wlcg", secret.New("alice/0")); err != nil {
			t.Fatal(err)
		}
		c, farm := distributorOf(w)
		farm.fail = errs.New(errs.Unavailable, "the agent is slow")
		stop := runs(t, w.Run, c.Run)
		defer stop()
		c.LinkChanged("alice-1", true)
		<-time.After(time.Minute)
		farm.mu.Lock()
		farm.fail = nil
		farm.mu.Unlock()
		<-time.After(time.Minute)
		if got := last(farm.has("alice-1")); got != "token=access-alice/1" {
			t.Errorf("brought %q", got)
		}
		f.set(func() { f.down = errs.New(errs.Unavailable, "it does not answer") })
		<-time.After(3 * time.Hour)
		if len(farm.told) != 1 || !strings.Contains(farm.told[0], "does not answer") {
			t.Errorf("told %q", farm.told)
		}
	})
}

func TestStartHasWhatItsOwnerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(time.Hour)
		h := &hub{token: "alice/0"}
		w := managerOver(t, newDisk(), secret.NewBox(), f, func(c *Config) { c.Hub = h.ask })
		c, farm := distributorOf(w)
		stop := runs(t, w.Run, c.Run)
		defer stop()
		c.LinkChanged("alice-1", true)
		synctest.Wait()
		c.Bring(t.Context(), "alice-1")
		if got := last(farm.has("alice-1")); got != "token=access-alice/1" {
			t.Errorf("at its start it has %q", got)
		}
		f.set(func() { f.takes = time.Minute }) // a slow issuer, and a token that has ended
		<-time.After(48 * time.Hour)
		c.LinkChanged("alice-2", true)
		synctest.Wait()
		begun := time.Now()
		c.Bring(t.Context(), "alice-2")
		if took := time.Since(begun); took > freshTime {
			t.Errorf("a slow issuer held the start up for %v", took)
		}
		c.Bring(t.Context(), "nobody") // no workload of anybody
	})
}

func TestSilentAgentHoldsAStartUpBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := managerOver(t, newDisk(), secret.NewBox(), newFakeIssuer(time.Hour))
		give(t, w, "alice", "alice/0")
		c, farm := distributorOf(w)
		farm.hang = true
		stop := runs(t, w.Run, c.Run)
		defer stop()
		synctest.Wait()
		c.LinkChanged("alice-1", true)
		synctest.Wait() // it is being sent to
		begun := time.Now()
		c.Bring(t.Context(), "alice-1")
		if took := time.Since(begun); took > bringTime {
			t.Errorf("the start waited for %v", took)
		}
	})
}
