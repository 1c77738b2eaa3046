package hubapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"slipway/internal/errs"
)

// RetryJob tries an ended job again: the same job, with a new attempt.
func (c *Client) RetryJob(ctx context.Context, id string, r RetryRequest) (Job, error) {
	return fetch[Job](ctx, c, http.MethodPost, path("jobs", id, "retry"), r)
}

// RetryScan tries the points of a scan again that are in some states, each in its place.
func (c *Client) RetryScan(ctx context.Context, id string, r RetryRequest) (ScanChange, error) {
	return fetch[ScanChange](ctx, c, http.MethodPost, path("scans", id, "retry"), r)
}

// ResubmitJob submits a new job with what an earlier one had but for what r names.
func (c *Client) ResubmitJob(ctx context.Context, id string, r ResubmitRequest) (Job, error) {
	return fetch[Job](ctx, c, http.MethodPost, path("jobs", id, "resubmit"), r)
}

// ResubmitScan submits a new scan likewise, and gives it and the first of its jobs as SubmitScan does.
func (c *Client) ResubmitScan(ctx context.Context, id string, r ResubmitRequest) (Jobs, error) {
	return c.submitScan(ctx, path("scans", id, "resubmit"), r)
}

// JobsUsage tells what the caller's jobs keep, and what she has used.
func (c *Client) JobsUsage(ctx context.Context) (JobsUsage, error) {
	return fetch[JobsUsage](ctx, c, http.MethodGet, "/jobs/usage", nil)
}

// JobLogTail returns the last lines of a job's output.
func (c *Client) JobLogTail(ctx context.Context, id string, lines int) (string, error) {
	return c.text(ctx, query(path("jobs", id, "log"), "tail", number(int64(lines))))
}

// PutBlob puts size bytes that r gives into the caller's store, under their digest (sha256:...), for JobInputs.Blobs.
// What is there already is not changed; what no job needs goes by itself.
func (c *Client) PutBlob(ctx context.Context, digest string, size int64, r io.Reader) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	resp, err := c.send(ctx, http.MethodPut, path("blobs", digest), sized{r, size}, header)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// pointsLimit is the most bytes of points that go with a request, which has 1 MiB at most; more of them go into the
// store.
const pointsLimit = 256 << 10

// light is a request whose points are in the store if they are many.
func (c *Client) light(ctx context.Context, r JobRequest) (JobRequest, error) {
	if len(r.Points) == 0 {
		return r, nil
	}
	text, err := json.Marshal(r.Points)
	if err != nil || len(text) <= pointsLimit {
		return r, err
	}
	r.PointsBlob, r.Points = fmt.Sprintf("sha256:%x", sha256.Sum256(text)), nil
	there, err := c.HasBlob(ctx, r.PointsBlob)
	if err == nil && !there {
		err = c.PutBlob(ctx, r.PointsBlob, int64(len(text)), bytes.NewReader(text))
	}
	if err != nil {
		return r, fmt.Errorf("put the points of the scan: %w", err)
	}
	return r, nil
}

// HasBlob reports whether the caller's store has what a digest names.
func (c *Client) HasBlob(ctx context.Context, digest string) (bool, error) {
	resp, err := c.open(ctx, http.MethodHead, path("blobs", digest), nil, nil)
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, resp.Body.Close()
}

// WatchScan tells how a scan goes on until all its points have ended: first how each point stands, then each that is
// another way than before, and in between the scan as a whole. A stream that breaks, also by a restart of the service,
// goes on with what has changed meanwhile. It ends early with an error of point or scan.
func (c *Client) WatchScan(ctx context.Context, id string, point func(PointEvent) error, scan func(Scan) error) error {
	last := ""
	return c.persist(ctx, func() (progress bool, err error) {
		header := http.Header{}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		where := path("scans", id, "events")
		resp, err := c.open(ctx, http.MethodGet, where, nil, header)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		for r := NewEventReader(resp.Body); ; progress = true {
			se, err := r.Next()
			if err != nil && ctx.Err() != nil {
				return progress, ctx.Err()
			}
			if err != nil {
				return progress, errMore
			}
			ended, err := scanStep(where, se, point, scan)
			if ended || err != nil {
				return true, err
			}
			if se.ID != "" {
				last = se.ID
			}
		}
	})
}

// scanStep takes one event of a scan's stream, and reports whether it was the end.
func scanStep(
	where string, se ServerEvent, point func(PointEvent) error, scan func(Scan) error,
) (ended bool, err error) {
	switch se.Name {
	case EventPoint:
		var e PointEvent
		if err := json.Unmarshal([]byte(se.Data), &e); err != nil {
			return false, garbled(where, err)
		}
		return false, point(e)
	case EventScan:
		var s Scan
		if err := json.Unmarshal([]byte(se.Data), &s); err != nil {
			return false, garbled(where, err)
		}
		return s.Ended(), scan(s)
	}
	return false, nil // of a newer service
}
