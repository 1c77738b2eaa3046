package hubapi

import (
	"context"
	"errors"
	"net/http"
)

// Scan is a number of jobs that were submitted together: its points.
type Scan struct {
	Meta
	Environment string        `json:"environment"`
	Points      int           `json:"points"`  // that there are still
	States      map[State]int `json:"states"`  // how many of them are in each; those with none are left out
	Held        int           `json:"held"`    // of the pending ones, how many wait to be released
	Waiting     string        `json:"waiting"` // why the first that waits does, in words
	Failure     string        `json:"failure"` // the reason of the first that has failed
}

// Ended reports whether all points have come to their end, good or bad.
func (s Scan) Ended() bool {
	return s.States[JobPending]+s.States[JobRunning] == 0
}

// Word says in one word how far a scan is: a state, or held when all that is left to do is.
func (s Scan) Word() string {
	for _, state := range []State{JobRunning, JobPending, JobFailed, JobCanceled} {
		switch {
		case s.States[state] == 0:
		case state == JobPending && s.Held == s.States[state]:
			return "held"
		default:
			return string(state)
		}
	}
	return string(JobDone)
}

// ScanChange says what came of a change to all points of a scan.
type ScanChange struct {
	Scan    Scan   `json:"scan"`
	Changed int    `json:"changed"` // points to which it was done
	Refused int    `json:"refused"` // points to which it could not be done
	Why     string `json:"why"`     // of the first of these
}

// Explanation says why a job has not started yet.
type Explanation struct {
	Job     string   `json:"job"`
	Summary string   `json:"summary"`
	Slots   int      `json:"slots"`   // of all machines that the batch system knows; 0: there is no batch system
	Fit     int      `json:"fit"`     // that fulfil every requirement, busy or not
	Free    int      `json:"free"`    // that could take it now
	Clauses []Clause `json:"clauses"` // its requirements
	Remedy  string   `json:"remedy"`  // what its owner can change; empty: nothing but wait
}

// Clause is one requirement of a job, and how many slots it excludes.
type Clause struct {
	Words    string `json:"words"`
	Text     string `json:"text"`     // as the batch system has it
	Excludes int    `json:"excludes"` // slots that fail it, whatever the others say
	Alone    int    `json:"alone"`    // slots that fail nothing else
}

// SubmitScan submits a job for each of the request's points: all of them or, with an error, none. It gives one scan,
// and the first of its jobs: one at least, SubmittedLimit at most.
func (c *Client) SubmitScan(ctx context.Context, r JobRequest) (Jobs, error) {
	r, err := c.light(ctx, r)
	if err != nil {
		return Jobs{}, err
	}
	return c.submitScan(ctx, "/jobs", r)
}

func (c *Client) submitScan(ctx context.Context, where string, body any) (Jobs, error) {
	list, err := fetch[Jobs](ctx, c, http.MethodPost, where, body)
	if err == nil && (len(list.Scans) != 1 || len(list.Jobs) == 0) {
		err = garbled(where, errors.New("a scan was submitted, and is not told of"))
	}
	return list, err
}

// JobsAndScans lists the caller's jobs that are points of no scan, and her scans.
func (c *Client) JobsAndScans(ctx context.Context, f JobFilter) (Jobs, error) {
	return fetch[Jobs](ctx, c, http.MethodGet, query("/jobs", append(f.pairs(), "points", "no")...), nil)
}

// Points returns a scan and its jobs in their order.
func (c *Client) Points(ctx context.Context, scan string) (Jobs, error) {
	return fetch[Jobs](ctx, c, http.MethodGet, query("/jobs", "scan", scan), nil)
}

// PointsAndFiles is Points with what each has left counted.
func (c *Client) PointsAndFiles(ctx context.Context, scan string) (Jobs, error) {
	return fetch[Jobs](ctx, c, http.MethodGet, query("/jobs", "scan", scan, "files", "yes"), nil)
}

// Scan returns a scan.
func (c *Client) Scan(ctx context.Context, id string) (Scan, error) {
	return fetch[Scan](ctx, c, http.MethodGet, path("scans", id), nil)
}

// scanPause is the wait, as backOff counts it, between two looks at a scan: about a second.
const scanPause = 4

// FollowScan gives each the scan as it goes on, until all its points have come to their end. It bears a restart of the
// service, and ends early with each's error.
func (c *Client) FollowScan(ctx context.Context, id string, each func(Scan) error) error {
	return c.persist(ctx, func() (progress bool, err error) {
		for ; ; progress = true {
			scan, err := c.Scan(ctx, id)
			if err != nil {
				return progress, err
			}
			if err := each(scan); err != nil || scan.Ended() {
				return true, err
			}
			if err := c.pause(ctx, scanPause); err != nil {
				return true, err
			}
		}
	})
}

// CancelScan cancels every job of a scan. It returns at once.
func (c *Client) CancelScan(ctx context.Context, id string) (ScanChange, error) {
	return c.changeScan(ctx, id, "cancel")
}

// HoldScan has every job of a scan that has not started yet wait until it is released.
func (c *Client) HoldScan(ctx context.Context, id string) (ScanChange, error) {
	return c.changeScan(ctx, id, "hold")
}

// ReleaseScan releases the jobs of a scan that are held.
func (c *Client) ReleaseScan(ctx context.Context, id string) (ScanChange, error) {
	return c.changeScan(ctx, id, "release")
}

// RequeueScan puts the jobs of a scan that run back in line.
func (c *Client) RequeueScan(ctx context.Context, id string) (ScanChange, error) {
	return c.changeScan(ctx, id, "requeue")
}

// RemoveScan removes the records and files of the jobs of a scan that have ended.
func (c *Client) RemoveScan(ctx context.Context, id string) (ScanChange, error) {
	return fetch[ScanChange](ctx, c, http.MethodDelete, path("scans", id), nil)
}

// WhyScan explains what the first job of a scan that waits is waiting for.
func (c *Client) WhyScan(ctx context.Context, id string) (Explanation, error) {
	return fetch[Explanation](ctx, c, http.MethodGet, path("scans", id, "why"), nil)
}

func (c *Client) changeScan(ctx context.Context, id, verb string) (ScanChange, error) {
	return fetch[ScanChange](ctx, c, http.MethodPost, path("scans", id, verb), nil)
}

// HoldJob has a job that has not started yet wait until it is released.
func (c *Client) HoldJob(ctx context.Context, id string) (Job, error) {
	return c.changeJob(ctx, id, "hold")
}

// ReleaseJob releases a job that is held.
func (c *Client) ReleaseJob(ctx context.Context, id string) (Job, error) {
	return c.changeJob(ctx, id, "release")
}

// RequeueJob puts a job that runs back in line: it begins anew.
func (c *Client) RequeueJob(ctx context.Context, id string) (Job, error) {
	return c.changeJob(ctx, id, "requeue")
}

// WhyJob explains what a job waits for.
func (c *Client) WhyJob(ctx context.Context, id string) (Explanation, error) {
	return fetch[Explanation](ctx, c, http.MethodGet, path("jobs", id, "why"), nil)
}

func (c *Client) changeJob(ctx context.Context, id, verb string) (Job, error) {
	return fetch[Job](ctx, c, http.MethodPost, path("jobs", id, verb), nil)
}

// Order is the order in which a job's states are told.
func Order() []State { return []State{JobPending, JobRunning, JobDone, JobFailed, JobCanceled} }
