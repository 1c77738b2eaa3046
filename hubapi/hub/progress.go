package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"slipway/internal/errs"
)

// Progress is one event of a server's start.
type Progress struct {
	Percent float64 `json:"progress"`
	Message string  `json:"message"`
	HTML    string  `json:"html_message"` // the Spawner's; not to be trusted
	Ready   bool    `json:"ready"`        // the last event of a start that came off
	Failed  bool    `json:"failed"`       // the last event of one that did not
	URL     string  `json:"url"`          // with Ready: the server's path
}

const (
	lineLimit  = 1 << 20
	eventLimit = 4 << 20
	quietLimit = 30 * time.Second // the Hub sends something every 8 s
)

var errQuiet = errors.New("nothing came for " + quietLimit.String())

// Progress follows the start of a server. It ends behind an event that is Ready or Failed, or with an error: Conflict
// when the server is not being started, NotFound when there is none, Unavailable when the Hub is lost on the way. It
// may take as long as ctx allows.
func (c *Client) Progress(ctx context.Context, user, server string) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		if err := c.follow(ctx, user, server, yield); err != nil {
			yield(Progress{}, err)
		}
	}
}

// follow gives each event to yield, and returns an error that yield has not been given.
func (c *Client) follow(ctx context.Context, user, server string, yield func(Progress, error) bool) error {
	what := "follow the start of " + serverName(user, server)
	k, err := c.ofUser(
		user,
		call{method: http.MethodGet, path: serverPath(user, server) + "/progress", what: what, scope: "read:servers"},
	)
	if err != nil {
		return err
	}
	k.accept = "text/event-stream"
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(quietLimit, func() { cancel(errQuiet) })
	defer watch.Stop()
	res, err := c.send(inner, k)
	if err != nil {
		return c.lost(ctx, k, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return notStarting(fault(k, res))
	}
	done := false
	err = readEvents(&watched{res.Body, watch}, func(p Progress) bool {
		done = !yield(p, nil) || p.Ready || p.Failed
		return !done
	})
	if done {
		return nil
	}
	return c.lost(ctx, k, fmt.Errorf("the events broke off: %w", errors.Join(err, context.Cause(inner))))
}

// notStarting gives the Hub's 400 its meaning.
func notStarting(err error) error {
	if errs.Is(err, errs.Invalid) {
		return errs.New(errs.Conflict, "%w", err)
	}
	return err
}

// watched puts off the watch with all that is read.
type watched struct {
	r     io.Reader
	watch *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.watch.Reset(quietLimit)
	return n, err
}

// readEvents reads a stream of server-sent events until each returns false; io.ErrUnexpectedEOF when the stream ends
// before. Empty lines, comments and fields other than data mean nothing.
func readEvents(r io.Reader, each func(Progress) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), lineLimit)
	var data []byte
	for lines.Scan() {
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
		if more, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = append(append(data, bytes.TrimPrefix(more, []byte(" "))...), '\n'); len(data) > eventLimit {
				return fmt.Errorf("an event is longer than %d bytes", eventLimit)
			}
			continue
		}
		if len(line) > 0 || len(data) == 0 {
			continue
		}
		var p Progress
		if err := json.Unmarshal(data, &p); err != nil {
			return fmt.Errorf("an event cannot be read: %w", err)
		}
		if data = data[:0]; !each(p) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
