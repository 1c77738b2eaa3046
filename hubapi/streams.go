package hubapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"slipway/internal/errs"
)

// patience is how many times in a row a stream that breaks is opened again without having brought anything: over a
// minute.
const patience = 40

// SessionEvents gives each what happens to a start of a session until the final event. A stream that breaks goes on
// where it broke. It ends early with each's error.
func (c *Client) SessionEvents(ctx context.Context, id, launch string, each func(Event) error) error {
	return c.events(ctx, query(path("sessions", id, "events"), "launch", launch), each)
}

// JobEvents is SessionEvents for a job.
func (c *Client) JobEvents(ctx context.Context, id string, each func(Event) error) error {
	return c.events(ctx, path("jobs", id, "events"), each)
}

// errMore asks for the stream to be opened again.
var errMore = errors.New("the stream has ended before its end")

func (c *Client) events(ctx context.Context, path string, each func(Event) error) error {
	last := ""
	return c.persist(ctx, func() (progress bool, err error) {
		header := http.Header{}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		resp, err := c.open(ctx, http.MethodGet, path, nil, header)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		for r := NewEventReader(resp.Body); ; progress = true {
			se, err := r.Next()
			if err != nil {
				return progress, errMore
			}
			var e Event
			if err := json.Unmarshal([]byte(se.Data), &e); err != nil {
				return progress, garbled(path, err)
			}
			last = se.ID
			if err := each(e); err != nil || e.Final {
				return true, err
			}
		}
	})
}

// persist runs try until it ends otherwise than by a broken stream or an absent service.
func (c *Client) persist(ctx context.Context, try func() (progress bool, err error)) error {
	for n := 0; ; n++ {
		progress, err := try()
		if progress {
			n = 0
		}
		if !errors.Is(err, errMore) && !errs.Passing(err) {
			return err
		}
		if n >= patience {
			return fmt.Errorf("gave up after %d tries: %w", n, err)
		}
		if err := c.pause(ctx, n); err != nil {
			return err
		}
	}
}

// LogHeader tells with a job's output of which run of it that is. A reader who comes back, and finds another, begins at
// its byte 0.
const LogHeader = "X-Slipway-Run"

// JobLog copies a job's output from byte from on to w: what there is, or with follow until the job has ended. A stream
// that breaks goes on at the byte where it broke, or with the whole output of the job's next try if that has begun
// meanwhile.
func (c *Client) JobLog(ctx context.Context, id string, from int64, follow bool, w io.Writer) error {
	flag := ""
	if follow {
		flag = "1"
	}
	run := ""
	return c.persist(ctx, func() (progress bool, err error) {
		resp, err := c.open(
			ctx, http.MethodGet, query(path("jobs", id, "log"), "from", number(from), "follow", flag), nil, nil,
		)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		before := run
		if run = resp.Header.Get(LogHeader); before != "" && run != before && from > 0 {
			from = 0
			return true, errMore
		}
		out := &counter{w: w}
		_, err = io.Copy(out, resp.Body)
		from += out.n
		switch {
		case out.err != nil:
			return false, out.err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			return out.n > 0, errMore
		case !follow:
			return true, nil
		}
		// A service that shuts down ends the stream as cleanly as a job that has ended does.
		job, err := c.Job(ctx, id)
		if err == nil && !job.State.Ended() {
			err = errMore
		}
		return out.n > 0, err
	})
}

// counter counts what reached w and keeps w's own error apart from the reader's.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

// Write writes to w.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
	return n, err
}

// Freeze makes an environment out of a session and tells of each step. A freeze whose stream breaks is joined again.
func (c *Client) Freeze(ctx context.Context, id string, r FreezeRequest, each func(Progress)) (Environment, error) {
	return follow[Environment](ctx, c, path("sessions", id, "freeze"), r, each)
}

// StartServer has the Hub start one of the caller's servers, tells what happens and gives its session. A stream that
// breaks is joined again; the start goes on without it.
func (c *Client) StartServer(ctx context.Context, r ServerRequest, each func(Progress)) (Session, error) {
	return follow[Session](ctx, c, "/servers", r, each)
}

// follow makes a request whose steps and result come as a stream. Where that breaks the request is made again: it joins
// the work, or goes on with it.
func follow[T any](ctx context.Context, c *Client, where string, in any, each func(Progress)) (T, error) {
	var result T
	var refused error // the work's own error, also one that names something unavailable, ends it
	err := c.persist(ctx, func() (progress bool, err error) {
		resp, err := c.open(ctx, http.MethodPost, where, in, nil)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		for events := NewEventReader(resp.Body); ; progress = true {
			se, err := events.Next()
			if err != nil {
				return progress, errMore
			}
			done, err := step(se, &result, each)
			if done || err != nil {
				refused = err
				return true, nil
			}
		}
	})
	return result, errors.Join(err, refused)
}

// step takes one event of such a stream and reports whether it was the last.
func step(se ServerEvent, result any, each func(Progress)) (done bool, err error) {
	switch se.Name {
	case EventProgress:
		var p Progress
		if err := json.Unmarshal([]byte(se.Data), &p); err != nil {
			return false, garbled("progress", err)
		}
		each(p)
		return false, nil
	case EventDone:
		if err := json.Unmarshal([]byte(se.Data), result); err != nil {
			return false, garbled("result", err)
		}
		return true, nil
	case EventError:
		return false, decodeError(http.StatusInternalServerError, []byte(se.Data))
	default:
		return false, nil
	}
}
