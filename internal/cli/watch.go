package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// How often a board is drawn, at most and at least, and how often it is told in lines where there is no terminal.
const (
	drawEvery    = 200 * time.Millisecond
	drawAnyway   = time.Second
	summaryEvery = 5 * time.Second
)

// toldFailures is how many failures are told in lines as they come.
const toldFailures = 10

// watch shows a board while source keeps it up to date, until source ends.
func watch(ctx context.Context, w io.Writer, b *board, what string, source func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var done sync.WaitGroup
	ended := make(chan error, 1)
	done.Go(func() { ended <- source(ctx) })
	defer done.Wait()
	defer stop()
	v := viewOf(w, b, what)
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(err, v.show(true))
		case <-tick.C:
			if err := v.show(false); err != nil {
				return err
			}
		}
	}
}

// view shows a board, at the end for the last time.
type view interface{ show(last bool) error }

func viewOf(w io.Writer, b *board, what string) view {
	s := &screen{w: w, size: func() (int, int, bool) { return terminalSize(w) }}
	if _, _, ok := s.size(); ok {
		return &boardView{board: b, screen: s}
	}
	return &lineView{board: b, w: w, what: what}
}

// boardView is a board in a terminal.
type boardView struct {
	*board
	*screen
	at      time.Time
	changes int
}

func (d *boardView) show(last bool) error {
	_, changes, _ := d.now()
	if !last && changes == d.changes && time.Since(d.at) < drawAnyway {
		return nil
	}
	width, height, ok := d.size()
	if !ok {
		width, height = 80, 24
	}
	d.at, d.changes = time.Now(), changes
	return d.draw(d.lines(width, height, d.at), width)
}

// lineView is a board in lines, such as in a file.
type lineView struct {
	*board
	w        io.Writer
	what     string
	at       time.Time
	said     string
	failures map[string]bool
}

func (t *lineView) show(last bool) error {
	summary, _, failed := t.now()
	if t.failures == nil {
		t.failures = map[string]bool{}
	}
	for _, r := range failed {
		if key := fmt.Sprint(r.id, r.attempt); !t.failures[key] && len(t.failures) < toldFailures {
			t.failures[key] = true
			fmt.Fprintf(t.w, "%s: failed: %s: %s\n", t.what, printable(r.label), printable(r.reason))
		}
	}
	if last || summary == "" || summary == t.said || time.Since(t.at) < summaryEvery {
		return nil
	}
	t.at, t.said = time.Now(), summary
	_, err := fmt.Fprintf(t.w, "%s: %s\n", t.what, printable(summary))
	return err
}

// watchPatience is how long a service may be away while it is asked again and again.
const watchPatience = 90 * time.Second

// again calls look every so often until it says that it is over. It bears that the service is away, or takes nothing more now, for
// as long as patience.
func again(ctx context.Context, every, patience time.Duration, look func() (over bool, err error)) error {
	good := time.Now()
	for {
		over, err := look()
		switch {
		case err == nil:
			good = time.Now()
		case !errs.Passing(err) || time.Since(good) > patience:
			return err
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// rowOf returns the row of a job that is looked at by itself.
func rowOf(j hubapi.Job, label string) boardRow {
	r := boardRow{id: j.ID, label: label, state: jobState(j), progress: j.Progress, where: j.Host, reason: j.Waiting, attempt: j.Attempt, up: j.Up}
	if j.Outcome != nil && j.State.Ended() {
		r.end = &j.Outcome.At
		r.reason = j.Outcome.Reason
	}
	if j.Slice != nil {
		r.where += " " + j.Slice.Name
	}
	return r
}

// rowOfPoint returns the row of a scan's point.
func rowOfPoint(e hubapi.PointEvent, label string) boardRow {
	where := e.Host
	if e.Slice != "" {
		where += " " + e.Slice
	}
	return boardRow{
		order: e.Point, id: e.Job, label: label, state: string(e.State), progress: e.Progress, where: where, reason: e.Reason, attempt: e.Attempt,
		up: e.Up, end: e.Ended,
	}
}
