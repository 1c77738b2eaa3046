package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"slipway/deploy/bench/figures"
	"slipway/hubapi"
)

// stamp is a payload whose first line is the time at which it was printed, in nanoseconds.
var stamp = []string{"sh", "-c", "date +%s%N"}

// overhead measures single jobs and single containers, in turns.
func overhead(ctx context.Context, s *site, o options) error {
	scratch, err := s.scratch("by-hand")
	if err != nil {
		return err
	}
	var job, seen, hand, more []float64
	for i := range o.starts + 1 {
		printed, read, err := s.one(ctx)
		if err != nil {
			return err
		}
		begun := time.Now()
		cmd := s.byHand(ctx, o, scratch, stamp...)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("by hand: %w", err)
		}
		at, err := stamped(out)
		if err != nil {
			return err
		}
		if i == 0 { // to warm up
			continue
		}
		h := at.Sub(begun)
		job, seen, hand, more = append(job, ms(printed)), append(seen, ms(read)), append(hand, ms(h)), append(more, ms(printed-h))
	}
	fmt.Printf(
		"\n| milliseconds to the payload's first line: median (min to max), %d rounds | |\n|---|---|\n", o.starts,
	)
	fmt.Printf("| a job, from the request for it | %s |\n", figures.Spread(job, "%.0f"))
	fmt.Printf("| the same, until the line is read by who follows the job's log | %s |\n", figures.Spread(seen, "%.0f"))
	fmt.Printf("| `apptainer exec` by hand | %s |\n| **more of the job, pair by pair** (target: 300) | %s |\n", figures.Spread(hand, "%.0f"), figures.Spread(more, "%.0f"))
	if o.verbose {
		fmt.Fprintf(os.Stderr, "job %.0f\nhand %.0f\n", job, hand)
	}
	return nil
}

// one runs one job, and gives how long after the request its first line was printed, and was read here.
func (s *site) one(ctx context.Context) (printed, read time.Duration, err error) {
	begun := time.Now()
	job, err := s.jobs.Submit(ctx, hubapi.JobRequest{
		Name: "one", JobSpec: hubapi.JobSpec{Environment: s.digest, Argv: stamp},
	})
	if err != nil {
		return 0, 0, err
	}
	var line firstLine
	if err := s.jobs.JobLog(ctx, job.ID, 0, true, &line); err != nil {
		return 0, 0, err
	}
	at, err := stamped(line.text)
	if err != nil {
		return 0, 0, err
	}
	if err := s.ended(ctx, job.ID); err != nil {
		return 0, 0, err
	}
	return at.Sub(begun), line.at.Sub(begun), s.jobs.RemoveJob(ctx, job.ID)
}

func (s *site) ended(ctx context.Context, id string) error {
	return until(ctx, id+" has ended", time.Minute, func() (bool, error) {
		job, err := s.jobs.Job(ctx, id)
		if err == nil && job.State == hubapi.JobFailed {
			err = fmt.Errorf("job %s has failed: %s", id, job.Outcome.Reason)
		}
		return job.State == hubapi.JobDone, err
	})
}

// firstLine notes when the first of what is written came.
type firstLine struct {
	text []byte
	at   time.Time
}

// Write keeps what it is given.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	f.text = append(f.text, p...)
	return len(p), nil
}

func stamped(out []byte) (time.Time, error) {
	line, _, _ := bytes.Cut(out, []byte("\n"))
	ns, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the first line is %q, and no time", line)
	}
	return time.Unix(0, ns), nil
}

// rate measures a scan of empty points beside `xargs -P`, in turns.
func rate(ctx context.Context, s *site, o options) error {
	scratch, err := s.scratch("by-hand")
	if err != nil {
		return err
	}
	var job, hand, ratio []float64
	var cpu [4][]float64
	for i := range o.rounds {
		var took [2]float64
		var ours, theirs usage
		for turn := range 2 { // who goes first changes from round to round
			if (turn+i)%2 == 0 {
				took[0], ours, err = s.measured(
					func() (float64, error) { return s.scan(ctx, o.points, []string{"true"}) },
				)
			} else {
				took[1], theirs, err = s.measured(func() (float64, error) {
					begun := time.Now()
					err := s.copies(ctx, o, scratch, o.points).Run()
					return time.Since(begun).Seconds(), err
				})
			}
			if err != nil {
				return err
			}
		}
		ours.hand = theirs.hand
		for k, v := range ours.ms(o.points) {
			cpu[k] = append(cpu[k], v)
		}
		n := float64(o.points)
		job, hand, ratio = append(job, n/took[0]), append(hand, n/took[1]), append(ratio, took[1]/took[0])
		if o.verbose {
			fmt.Fprintf(
				os.Stderr,
				"round %d: scan %.1f s, xargs %.1f s, ratio %.2f, CPU ms of service, shims, containers, xargs %.0f\n",
				i, took[0], took[1], took[1]/took[0], ours.ms(o.points),
			)
		}
	}
	fmt.Printf(
		"\n| empty points a second, %d points, %d at once: median (min to max), %d rounds | |\n|---|---|\n", o.points,
		o.atOnce, o.rounds,
	)
	fmt.Printf("| a scan, from the request to the last point's end | %s |\n| `xargs -P %d` of `apptainer exec` | %s |\n", figures.Spread(job, "%.1f"), o.atOnce, figures.Spread(hand, "%.1f"))
	fmt.Printf("| **scan / xargs, pair by pair** (target: 0.8) | %s |\n", figures.Spread(ratio, "%.2f"))
	for k, what := range []string{"the service", "the shims", "the container, with the agent in it", "`apptainer exec` by hand"} {
		fmt.Printf("| CPU milliseconds a point: %s | %s |\n", what, figures.Spread(cpu[k], "%.0f"))
	}
	return nil
}

// measured returns what was used in what takes some seconds.
func (s *site) measured(run func() (float64, error)) (float64, usage, error) {
	before, err := s.used()
	if err != nil {
		return 0, usage{}, err
	}
	took, err := run()
	if err != nil {
		return 0, usage{}, err
	}
	after, err := s.used()
	return took, after.minus(before), err
}

// scan runs a scan of n points and gives the seconds until its end.
func (s *site) scan(ctx context.Context, n int, argv []string) (float64, error) {
	begun := time.Now()
	id, _, err := s.submit(ctx, n, argv)
	if err != nil {
		return 0, err
	}
	var last hubapi.Scan
	if err := untilEvery(ctx, scanPause, id+" has ended", 20*time.Minute, func() (bool, error) {
		last, err = s.jobs.Scan(ctx, id)
		return last.Ended(), err
	}); err != nil {
		return 0, err
	}
	took := time.Since(begun).Seconds()
	if last.States[hubapi.JobDone] != n {
		return 0, fmt.Errorf("scan %s: %v: %s", id, last.States, last.Failure)
	}
	_, err = s.jobs.RemoveScan(ctx, id)
	return took, errors.Join(err, until(ctx, "it is removed", 5*time.Minute, func() (bool, error) {
		list, err := s.jobs.JobsAndScans(ctx, hubapi.JobFilter{})
		return len(list.Scans) == 0, err
	}))
}

// submit submits a scan and gives its id, and how long that took.
func (s *site) submit(ctx context.Context, n int, argv []string) (string, time.Duration, error) {
	points := make([]hubapi.Point, n)
	for i := range points {
		points[i].Parameters = map[string]string{"X": strconv.Itoa(i)}
	}
	begun := time.Now()
	list, err := s.jobs.SubmitScan(ctx, hubapi.JobRequest{
		Name: "scan", JobSpec: hubapi.JobSpec{Environment: s.digest, Argv: argv}, Points: points,
	})
	if err != nil {
		return "", 0, err
	}
	return list.Scans[0].ID, time.Since(begun), nil
}

// watched is for how long a large scan is looked at.
const watched = time.Minute

// many submits the largest scan, and looks at the service's memory.
func many(ctx context.Context, s *site, o options) error {
	before, err := s.memory("VmRSS")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.proc("clear_refs"), []byte("5"), 0); err != nil { // what counts as the most begins here
		return err
	}
	idle, err := s.used()
	if err != nil {
		return err
	}
	id, took, err := s.submit(ctx, o.many, []string{"true"})
	if err != nil {
		return err
	}
	busy, err := s.used()
	if err != nil {
		return err
	}
	running, err := s.mostMemory(ctx, watched)
	if err != nil {
		return err
	}
	now, err := s.jobs.Scan(ctx, id)
	if err != nil {
		return err
	}
	most, err := s.memory("VmHWM")
	if err != nil {
		return err
	}
	fmt.Printf("\n| a scan of %d points | |\n|---|---|\n", o.many)
	fmt.Printf(
		"| **accepted after** (target: 2 s) | %.2f s |\n| CPU seconds of the service for that | %.2f |\n",
		took.Seconds(), busy.service-idle.service,
	)
	fmt.Printf("| the service's memory before | %.0f MB |\n| the most while it is accepted | %.0f MB |\n", before, most)
	fmt.Printf("| **the most in the %s after that** (target: 200 MB) | %.0f MB |\n", watched, running)
	fmt.Printf("| points that ended meanwhile | %d |\n", now.States[hubapi.JobDone])
	return nil
}

// mostMemory looks at the service's memory every second for a while.
func (s *site) mostMemory(ctx context.Context, d time.Duration) (most float64, err error) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		now, err := s.memory("VmRSS")
		if err != nil {
			return 0, err
		}
		most = max(most, now)
		select {
		case <-every.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return most, nil
}

func (s *site) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(s.serve.Process.Pid), name)
}

// memory reads one of the service's figures, in MB.
func (s *site) memory(name string) (float64, error) {
	f, err := os.ReadFile(s.proc("status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(f)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, io.ErrUnexpectedEOF
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
