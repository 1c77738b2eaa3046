package hubapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Me says who the service takes the caller for.
func (c *Client) Me(ctx context.Context) (Me, error) {
	return fetch[Me](ctx, c, http.MethodGet, "/me", nil)
}

// Profiles lists what the site offers.
func (c *Client) Profiles(ctx context.Context) ([]Profile, error) {
	return fetch[[]Profile](ctx, c, http.MethodGet, "/profiles", nil)
}

// SpawnForm returns the form fragment for the Hub's spawn page.
func (c *Client) SpawnForm(ctx context.Context, user string) (string, error) {
	return c.text(ctx, query("/spawn-form", "user", user))
}

// StartSession starts a session, for a hub's Spawner.
func (c *Client) StartSession(ctx context.Context, r SessionRequest) (Session, error) {
	return fetch[Session](ctx, c, http.MethodPost, "/sessions", r)
}

// GPUs lists the site's GPUs and who has what of them.
func (c *Client) GPUs(ctx context.Context) (GPUs, error) {
	return fetch[GPUs](ctx, c, http.MethodGet, "/gpus", nil)
}

// DrainGPU takes a GPU out of use, for administrators: what runs on it goes on, nothing new starts. It is named by its
// index, its UUID or the beginning of that.
func (c *Client) DrainGPU(ctx context.Context, gpu, why string) (GPUChange, error) {
	return fetch[GPUChange](ctx, c, http.MethodPost, path("gpus", gpu, "drain"), DrainRequest{Why: why})
}

// ResumeGPU puts a GPU back, for administrators: its drain and its quarantines end, and what the driver says against it
// now counts no more.
func (c *Client) ResumeGPU(ctx context.Context, gpu string) (GPUChange, error) {
	return fetch[GPUChange](ctx, c, http.MethodPost, path("gpus", gpu, "resume"), nil)
}

// SessionGPU tells how much of its slice of a GPU a session has used over time.
func (c *Client) SessionGPU(ctx context.Context, id string) (GPUSeries, error) {
	return fetch[GPUSeries](ctx, c, http.MethodGet, "/sessions/"+url.PathEscape(id)+"/gpu", nil)
}

// JobGPU tells the same of a job.
func (c *Client) JobGPU(ctx context.Context, id string) (GPUSeries, error) {
	return fetch[GPUSeries](ctx, c, http.MethodGet, "/jobs/"+url.PathEscape(id)+"/gpu", nil)
}

// GPUFormats are the forms in which PublishGPUs has GPUs.
var GPUFormats = []string{"classad", "cms", "glue"}

// PublishGPUs returns the same for matchmaking, in one of GPUFormats.
func (c *Client) PublishGPUs(ctx context.Context, format string) (string, error) {
	return c.text(ctx, query("/gpus", "format", format))
}

// Sessions lists the sessions that the caller may see; a user and a name, unless empty, choose among them.
func (c *Client) Sessions(ctx context.Context, user, name string) ([]Session, error) {
	list, err := fetch[Sessions](ctx, c, http.MethodGet, query("/sessions", "user", user, "name", name), nil)
	return list.Sessions, err
}

// Session returns a session; Self is the one that the caller runs in.
func (c *Client) Session(ctx context.Context, id string) (Session, error) {
	return fetch[Session](ctx, c, http.MethodGet, path("sessions", id), nil)
}

// WaitSession waits up to 20 s for a session's start to come to its end, and gives the session as it is then.
func (c *Client) WaitSession(ctx context.Context, id, launch string) (Session, error) {
	return fetch[Session](ctx, c, http.MethodGet, query(path("sessions", id, "wait"), "launch", launch), nil)
}

// StopSession stops a session and returns when it is stopped. Its changes are kept.
func (c *Client) StopSession(ctx context.Context, id string) (Session, error) {
	return fetch[Session](ctx, c, http.MethodPost, path("sessions", id, "stop"), nil)
}

// CancelSession asks for the end of a session or of its start, and returns at once. Its changes are kept.
func (c *Client) CancelSession(ctx context.Context, id string) (Session, error) {
	return fetch[Session](ctx, c, http.MethodPost, path("sessions", id, "stop")+"?wait=no", nil)
}

// KeepSession keeps a session running for d, though nothing may go on in it.
func (c *Client) KeepSession(ctx context.Context, id string, d time.Duration) (Session, error) {
	return fetch[Session](ctx, c, http.MethodPost, path("sessions", id, "keep"), KeepRequest{For: d.String()})
}

// RemoveSession discards a session with the changes that it kept.
func (c *Client) RemoveSession(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, path("sessions", id), nil, nil)
}

// RemoveSessionsOf discards all sessions of one server name of a user, for a hub's Spawner.
func (c *Client) RemoveSessionsOf(ctx context.Context, user, name string) error {
	return c.call(ctx, http.MethodDelete, query("/sessions", "user", user)+"&name="+url.QueryEscape(name), nil, nil)
}

// SessionLog returns the last lines of a session's output.
func (c *Client) SessionLog(ctx context.Context, id string, lines int) (string, error) {
	return c.text(ctx, query(path("sessions", id, "log"), "tail", number(int64(lines))))
}

// CheckJob says what a job would meet if it were submitted now, and has the service refuse what it would refuse then.
// The environment need not be there yet.
func (c *Client) CheckJob(ctx context.Context, r JobRequest) (JobPlan, error) {
	r, err := c.light(ctx, r)
	if err != nil {
		return JobPlan{}, err
	}
	return fetch[JobPlan](ctx, c, http.MethodPost, "/jobs/check", r)
}

// Submit submits a job.
func (c *Client) Submit(ctx context.Context, r JobRequest) (Job, error) {
	return fetch[Job](ctx, c, http.MethodPost, "/jobs", r)
}

// Jobs lists the caller's jobs.
func (c *Client) Jobs(ctx context.Context, f JobFilter) ([]Job, error) {
	list, err := fetch[Jobs](ctx, c, http.MethodGet, query("/jobs", f.pairs()...), nil)
	return list.Jobs, err
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return fetch[Job](ctx, c, http.MethodGet, path("jobs", id), nil)
}

// CancelJob cancels a job. It returns at once.
func (c *Client) CancelJob(ctx context.Context, id string) (Job, error) {
	return fetch[Job](ctx, c, http.MethodPost, path("jobs", id, "cancel"), nil)
}

// RemoveJob removes an ended job's record and files.
func (c *Client) RemoveJob(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, path("jobs", id), nil, nil)
}

// JobFiles lists the files that a job has left.
func (c *Client) JobFiles(ctx context.Context, id string) ([]File, error) {
	list, err := fetch[Files](ctx, c, http.MethodGet, path("jobs", id, "files"), nil)
	return list.Files, err
}

// JobFile copies a file that a job has left to w. A file cut short is an error.
func (c *Client) JobFile(ctx context.Context, id, name string, w io.Writer) error {
	what := path("jobs", id, "files", name)
	resp, err := c.open(ctx, http.MethodGet, what, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("fetch file %s of %s: %w", name, id, err)
	}
	return nil
}

func (c *Client) text(ctx context.Context, path string) (string, error) {
	resp, err := c.open(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return "", garbled(path, err)
	}
	return string(b), nil
}
