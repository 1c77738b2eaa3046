package pool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/classad"
)

// slowPool answers after a time, of what it is asked for.
type slowPool struct {
	takes time.Duration

	mu    sync.Mutex
	asked []string
	err   error
}

func (s *slowPool) run(ctx context.Context, c command.Command) ([]byte, error) {
	s.mu.Lock()
	s.asked = append(s.asked, c.Name+" "+c.Args[0])
	err := s.err
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
	}
	switch {
	case err != nil:
		return nil, err
	case c.Name == "condor_q":
		return []byte(waitingJobs), nil
	case c.Args[0] == "-any":
		return []byte(accounting), nil
	default:
		return (&fakePool{name: "busy"}).run(ctx, c)
	}
}

func (s *slowPool) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// count returns how often something was asked.
func (s *slowPool) count(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if asked == what {
			n++
		}
	}
	return n
}

// waitingJobs are four jobs: two that are alike, of which HTCondor says of one why it waits, one of a group, and one
// that nobody has looked at yet.
const waitingJobs = `[
{"ClusterId": 5, "ProcId": 0, "User": "alice@x.org", "AutoClusterId": 3},
{"ClusterId": 5, "ProcId": 1, "User": "alice@x.org", "AutoClusterId": 3, "LastRejMatchReason": "concurrency limit slim reached"},
{"ClusterId": 7, "ProcId": 0, "User": "slip@x.org", "AccountingGroup": "interactive.sue", "AutoClusterId": 4},
{"ClusterId": 8, "ProcId": 0, "User": "bob@x.org"}]`

func TestPlaces(t *testing.T) {
	ads, err := classad.ParseAll([]byte(waitingJobs))
	noError(t, err)
	all := placesOf(ads)
	for job, want := range map[string]string{
		"5.0": "alice@x.org: concurrency limit slim reached", "5.1": "alice@x.org: concurrency limit slim reached", "7.0": "interactive.sue@x.org: ",
		"8.0": "bob@x.org: ", "9.0": ": ",
	} {
		if user, reason := all.of(job); user+": "+reason != want {
			t.Errorf("%s: %s: %s, want %s", job, user, reason, want)
		}
	}
}

// TestWhyIsAskedOnce: who asks again and again why a job waits costs HTCondor one question of each kind within a time.
func TestWhyIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowPool{takes: time.Second}
		p, err := New(Config{Logger: slog.New(slog.DiscardHandler), Run: s.run})
		noError(t, err)
		d := Demand{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}}
		var askers sync.WaitGroup
		for range 50 {
			askers.Go(func() {
				for job, want := range map[string]string{"5.0": "a limit of the site is reached (slim); without that, ", "7.0": "counts it for interactive.sue@x.org"} {
					e, err := p.Explain(t.Context(), d)
					if e = p.InLine(t.Context(), job, e); err != nil || !strings.Contains(e.Summary, want) {
						t.Errorf("%s: %q, %v", job, e.Summary, err)
					}
				}
			})
		}
		askers.Wait()
		for _, what := range []string{"condor_status -json", "condor_status -any", "condor_q -allusers"} {
			if n := s.count(what); n != 1 {
				t.Errorf("%s was asked %d times", what, n)
			}
		}
		time.Sleep(time.Minute)
		p.InLine(t.Context(), "7.0", spawner.Explanation{})
		if n := s.count("condor_q -allusers"); n != 2 {
			t.Errorf("after a minute the queue was asked %d times", n)
		}
	})
}

// TestPatienceIsTheAskers: who goes before a slow collector answers has not had the answer go away for the others.
func TestPatienceIsTheAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowPool{takes: judgePatience + 5*time.Second}
		p, err := New(Config{Logger: slog.New(slog.DiscardHandler), Run: s.run})
		noError(t, err)
		d := Demand{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}, GPU: asked(t, "any,memory>=500G")}
		if err := p.Judge(t.Context(), d); err != nil {
			t.Errorf("what is not known yet is refused: %v", err)
		}
		if c, err := p.Catalogue(t.Context()); err != nil || c.Machines == 0 {
			t.Errorf("who waits longer has %+v, %v", c, err)
		}
		if err := p.Judge(t.Context(), d); err == nil || s.count("condor_status -json") != 1 {
			t.Errorf("%v after %d questions", err, s.count("condor_status -json"))
		}
	})
}

// TestSilenceIsToldOnce: that HTCondor does not answer is in the log once, and once that it does again, however many
// ask.
func TestSilenceIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &slowPool{err: errors.New("no collector")}
		p, err := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Run: s.run})
		noError(t, err)
		for n := range 100 {
			noError(t, p.Judge(t.Context(), Demand{Resources: spawner.Resources{CPUs: float64(n), Memory: 1 << 30}}))
			time.Sleep(5 * time.Second)
		}
		s.fail(nil)
		time.Sleep(time.Minute)
		noError(t, p.scan(t.Context()))
		noError(t, p.scan(t.Context()))
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "no collector") || !strings.Contains(text, "tells the pool's machines again") {
			t.Error(text)
		}
	})
}

// TestJudgementsAreKept: the points of a scan are judged once, and what is kept of all demands has a bound.
func TestJudgementsAreKept(t *testing.T) {
	p := (&fakePool{name: "idle"}).pool(t, Config{})
	for n := range mostJudgements + 10 {
		for range 2 {
			noError(t, p.Judge(t.Context(), Demand{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 20}, Facts: map[string]classad.Value{"SlipwayUser": fmt.Sprint(n)}}))
		}
	}
	if n := len(p.judgements); n != 10 {
		t.Errorf("%d judgements are kept", n)
	}
}
