package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// plan is what a curve is measured by.
type plan struct {
	dir          string
	levels       []int
	steady, idle time.Duration
	extra        []string // arguments of the service
}

const (
	mostSessions = 20_000
	atOnce       = 20  // starts under way in a burst
	burst        = 200 // starts of one
	bursts       = 5
	steadyRate   = 20               // starts, and as many stops, a second while traffic is steady
	pollEach     = 30 * time.Second // a Hub asks for each server so often
)

func parseCurve(args []string) (plan, error) {
	var p plan
	f := flag.NewFlagSet("simulated curve", flag.ContinueOnError)
	f.StringVar(&p.dir, "dir", "", "a directory that is not there yet")
	levels := f.String(
		"levels", "100,300,1000,3000,10000", "sessions that stand while the cost of one more is measured, rising",
	)
	f.DurationVar(
		&p.steady, "steady", 32*time.Second,
		"how long traffic is steady at each level; the service looks at every session each 15 s",
	)
	f.DurationVar(&p.idle, "idle", 30*time.Second, "how long nothing is asked at each level")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	for _, text := range strings.Split(*levels, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostSessions || (len(p.levels) > 0 && n <= p.levels[len(p.levels)-1]) {
			return p, fmt.Errorf("--levels %s: rising numbers up to %d", *levels, mostSessions)
		}
		p.levels = append(p.levels, n)
	}
	if p.extra = f.Args(); p.dir == "" {
		return p, errors.New(usage)
	}
	return p, nil
}

// point is the cost at one level. Times of answers are the service's own.
type point struct {
	Sessions   int     `json:"sessions"`
	StartCPU   float64 `json:"start_cpu_ms"`  // of the service for one start, median of the bursts
	StartWall  float64 `json:"start_wall_ms"` // likewise
	PollCPU    float64 `json:"poll_cpu_ms"`
	Burst      figures `json:"burst"`
	Steady     figures `json:"steady"`
	IdleCPU    float64 `json:"idle_cpu_ms"` // for one session in a minute in which nobody asks for anything
	RSS        int64   `json:"rss"`
	PerSession float64 `json:"rss_per_session"` // bytes above the service without sessions
}

// curve starts a service and measures what a session costs it at each level.
func curve(ctx context.Context, args []string) error {
	p, err := parseCurve(args)
	if err != nil {
		return err
	}
	s, err := startService(ctx, p)
	if err != nil {
		return err
	}
	defer s.end()
	empty, err := s.figures(ctx, true)
	if err != nil {
		return err
	}
	var points []point
	for _, level := range p.levels {
		fmt.Fprintf(os.Stderr, "curve: %d sessions\n", level)
		at, err := s.measure(ctx, level, p)
		if err != nil {
			return fmt.Errorf("at %d sessions: %w", level, err)
		}
		at.PerSession = float64(at.RSS-empty.RSS) / float64(level)
		points = append(points, at)
	}
	return json.NewEncoder(os.Stdout).Encode(
		map[string]any{"simulated": true, "empty_rss": empty.RSS, "points": points},
	)
}

// service is a simulated service in a process of its own.
type service struct {
	client
	cmd      *exec.Cmd
	standing []string // ids
	made     int
}

func startService(ctx context.Context, p plan) (*service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return nil, err
	}
	secret := filepath.Join(p.dir, "token")
	if err := os.WriteFile(secret, []byte("bench"), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(p.dir, "service.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(
		ctx, self,
		append([]string{"serve", "--dir", filepath.Join(p.dir, "service"), "--token-file", secret}, p.extra...)...,
	)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay, cmd.Stderr = 10*time.Second, log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the service did not start; see %s", log.Name()), cmd.Wait())
	}
	address := line[strings.LastIndexByte(line, ' ')+1:]
	return &service{client: newClient("http://" + strings.TrimSpace(address)), cmd: cmd}, nil
}

func (s *service) end() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = s.cmd.Wait()
}

// measure brings the service to a level and measures there.
func (s *service) measure(ctx context.Context, level int, p plan) (point, error) {
	at := point{Sessions: level}
	more, err := s.startMany(ctx, level-len(s.standing))
	s.standing = append(s.standing, more...)
	if err == nil {
		err = s.bursts(ctx, &at)
	}
	if err == nil {
		at.Steady, err = s.steady(ctx, p.steady)
	}
	if err != nil {
		return at, err
	}
	before, err := s.figures(ctx, true)
	if err == nil {
		err = sleep(ctx, p.idle)
	}
	if err != nil {
		return at, err
	}
	after, err := s.figures(ctx, true)
	at.RSS = after.RSS
	at.IdleCPU = (after.CPU - before.CPU) * 1e3 / float64(level) * float64(time.Minute) / float64(max(p.idle, 1))
	return at, err
}

// bursts starts many as fast as it goes and asks for each, then takes them away again.
func (s *service) bursts(ctx context.Context, at *point) error {
	var cpu, wall, poll []float64
	if _, err := s.figures(ctx, true); err != nil {
		return err
	}
	for range bursts {
		before, err := s.figures(ctx, false)
		if err != nil {
			return err
		}
		began := time.Now()
		ids, err := s.startMany(ctx, burst)
		if err != nil {
			return err
		}
		took := time.Since(began)
		up, err := s.figures(ctx, false)
		if err == nil {
			err = parallel(ctx, burst, func(ctx context.Context, i int) error { return s.poll(ctx, s.any()) })
		}
		if err != nil {
			return err
		}
		if at.Burst, err = s.figures(ctx, false); err != nil {
			return err
		}
		cpu = append(cpu, (up.CPU-before.CPU)*1e3/burst)
		wall = append(wall, float64(took.Microseconds())/1e3/burst)
		poll = append(poll, (at.Burst.CPU-up.CPU)*1e3/burst)
		if err := parallel(ctx, burst, func(ctx context.Context, i int) error { return s.stopAndRemove(ctx, ids[i]) }); err != nil {
			return err
		}
	}
	f, err := s.figures(ctx, true)
	at.Burst, at.StartCPU, at.StartWall, at.PollCPU = f, median(cpu), median(wall), median(poll)
	return err
}

// steady starts and stops sessions at a rate that a busy Hub has, while each that stands is asked for as often as a Hub
// does.
func (s *service) steady(ctx context.Context, d time.Duration) (figures, error) {
	if _, err := s.figures(ctx, true); err != nil {
		return figures{}, err
	}
	g, ctx := errgroup.WithContext(ctx)
	end := time.Now().Add(d)
	paced := func(gap time.Duration, do func() error) {
		for next := time.Now(); next.Before(end); next = next.Add(gap) {
			if sleep(ctx, time.Until(next)) != nil {
				return
			}
			g.Go(do)
		}
	}
	g.Go(func() error {
		paced(time.Second/steadyRate, func() error {
			ids, err := s.startMany(ctx, 1)
			if err == nil {
				err = sleep(ctx, time.Second)
			}
			if err == nil {
				err = s.stopAndRemove(ctx, ids[0])
			}
			return err
		})
		return nil
	})
	g.Go(func() error {
		paced(pollEach/time.Duration(len(s.standing)), func() error { return s.poll(ctx, s.any()) })
		return nil
	})
	if err := g.Wait(); err != nil {
		return figures{}, err
	}
	return s.figures(context.WithoutCancel(ctx), true)
}

func (s *service) any() string { return s.standing[rand.IntN(len(s.standing))] }

// startMany starts n sessions, some at once, and waits until each runs.
func (s *service) startMany(ctx context.Context, n int) ([]string, error) {
	var mu sync.Mutex // guards ids, and the number of users
	ids := make([]string, 0, max(n, 0))
	err := parallel(ctx, n, func(ctx context.Context, _ int) error {
		mu.Lock()
		s.made++
		user := fmt.Sprintf("u%d", s.made%mostSessions)
		mu.Unlock()
		id, err := s.start(ctx, user)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// parallel does n things, some at once.
func parallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}
