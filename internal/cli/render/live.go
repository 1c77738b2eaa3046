package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"slipway/internal/clock"
)

// How often a board is drawn, at most and at least, and how often it is told in lines where there is no terminal.
const (
	drawEvery    = 200 * time.Millisecond
	drawAnyway   = time.Second
	summaryEvery = 5 * time.Second
)

// toldFailures is how many failures are told in lines as they come.
const toldFailures = 10

// Watch shows a board while source keeps it up to date, until source ends.
func Watch(ctx context.Context, w io.Writer, b *Board, what string, source func(context.Context) error) error {
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

// Refresh shows a text that look makes anew every so often, until ctx ends. Where there is no terminal it is shown once.
func Refresh(ctx context.Context, w io.Writer, every time.Duration, look func(ctx context.Context) (string, error)) error {
	s := &screen{w: w}
	for {
		text, err := look(ctx)
		if err != nil {
			return err
		}
		width, height, ok := terminalSize(w)
		if !ok {
			_, err := io.WriteString(w, text)
			return err
		}
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		lines = lines[:min(len(lines), max(1, height-1))]
		for i := range lines {
			lines[i] = cut(lines[i], width)
		}
		if err := s.draw(lines, width); err != nil {
			return err
		}
		if !clock.Sleep(ctx, every) {
			return ctx.Err()
		}
	}
}

// view shows a board, at the end for the last time.
type view interface{ show(last bool) error }

func viewOf(w io.Writer, b *Board, what string) view {
	s := &screen{w: w, size: func() (int, int, bool) { return terminalSize(w) }}
	if _, _, ok := s.size(); ok {
		return &boardView{Board: b, screen: s}
	}
	return &lineView{Board: b, w: w, what: what}
}

// boardView is a board in a terminal.
type boardView struct {
	*Board
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
	*Board
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
		if key := fmt.Sprint(r.ID, r.Attempt); !t.failures[key] && len(t.failures) < toldFailures {
			t.failures[key] = true
			fmt.Fprintf(t.w, "%s: failed: %s: %s\n", t.what, Printable(r.Label), Printable(r.Reason))
		}
	}
	if last || summary == "" || summary == t.said || time.Since(t.at) < summaryEvery {
		return nil
	}
	t.at, t.said = time.Now(), summary
	_, err := fmt.Fprintf(t.w, "%s: %s\n", t.what, Printable(summary))
	return err
}
