package webui

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Visit is who looks at a page, and where it lies.
type Visit struct {
	User   string
	Admin  bool
	Prefix string // of the pages, with slashes at both ends
	Home   string // the path of the Hub's pages, with a slash at the end
	Form   string // the token that every form sends
	Stream string // the token that the event stream is asked with
	GPUs   bool   // the site has some, and their page lies at Prefix + "gpus"
	Pool   bool   // the site has a pool, and the page of its GPUs lies at Prefix + "gpus/pool"
	// Environments: the service keeps some, and their page lies at Prefix + "environments".
	Environments bool
	SSH          bool   // sessions are reached by ssh, and its page lies at Prefix + "ssh"
	Theme        string // light or dark, as the visitor has chosen; empty: as the browser has it
	Credentials  bool   // the service keeps tokens and proxies, and their page lies at Prefix + "credentials"
}

// Item is a workload with what the engine says of it.
type Item struct {
	spawner.Workload
	Queue       spawner.Queue
	Detail      string // what it waits for, here or in a batch system's queue; empty: it does not wait
	PlannedStop spawner.PlannedStop
	Alerts      []spawner.Alert // what its owner is to know of its limits
	Use         gpu.Use         // of its slice of a GPU
	Lent        bool            // its slice is lent to a job meanwhile
	Quotas      []hubapi.Quota  // how full her directories are that it has
	SSH         string          // what the visitor types to reach it; empty: she does not by ssh
	Mine        bool            // it is the visitor's own
	Progress    *hubapi.JobProgress
	Expires     time.Time // when a job is removed by itself; zero: it has not ended, or never
	// Files are what a job has left that has ended, and Log is how many bytes of output.
	Files []hubapi.File
	Log   int64
}

// keepFor is how long the button keeps a session.
const keepFor = 4 * time.Hour

// row is a workload as the pages show it.
type row struct {
	Item
	Visit     Visit
	Catalogue catalog.Catalogue
	Back      string // what the forms send for the page to come back to: "", "list" or "all"
}

// IsJob reports whether it is a job.
func (r row) IsJob() bool { return r.Kind.Batch() }

// IsKernel reports whether it is a kernel, of which nothing is kept when it ends.
func (r row) IsKernel() bool { return r.Kind.Ephemeral() }

// Called is what it is called at the head of its page.
func (r row) Called() string {
	noun := r.Kind.Noun()
	return strings.ToUpper(noun[:1]) + noun[1:]
}

// standsBy reports whether it is to become its owner's next kernel, and waits for nothing but that.
func (r row) standsBy() bool {
	return r.Standby != "" && r.Want == spawner.WantRunning && r.Phase.Active() && r.Phase != spawner.Stopping
}

// Notebooks says which notebooks it computes for, as far as their Jupyter has told; empty: none that is known.
func (r row) Notebooks() string {
	var names []string
	for _, n := range r.Workload.Notebooks {
		if name := cmp.Or(n.Path, n.Name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Title names the workload.
func (r row) Title() string {
	switch {
	case r.Name != "" && r.Scan != "":
		return fmt.Sprintf("%s, point %d", r.Name, r.Point)
	case r.Name != "":
		return r.Name
	case r.IsJob():
		return string(r.ID)
	default:
		return "default server"
	}
}

// Page is the path of its own page.
func (r row) Page() string {
	if r.IsJob() {
		return r.Visit.Prefix + "jobs/" + string(r.ID)
	}
	return r.Visit.Prefix + "sessions/" + string(r.ID)
}

// Open is the path of the session itself; empty when it cannot be opened.
func (r row) Open() string {
	if r.IsJob() || r.Phase != spawner.Running || r.Want != spawner.WantRunning || r.Spec.Prefix == "" {
		return ""
	}
	return (&url.URL{Path: r.Spec.Prefix}).EscapedPath()
}

// OpenWord is what opening it is called.
func (r row) OpenWord() string {
	if r.Kind == spawner.Code {
		return "Open VS Code"
	}
	return "Open"
}

// Start is where the Hub starts the session's server again; empty while it is active.
func (r row) Start() string {
	if r.IsJob() || r.IsKernel() || r.Phase != spawner.Stopped || r.Want == spawner.WantGone {
		return ""
	}
	path := r.Visit.Home + "spawn/" + url.PathEscape(string(r.Owner))
	if r.Name != "" {
		path += "/" + url.PathEscape(r.Name)
	}
	return path
}

// State says the phase and how the last start ended in one word or two.
func (r row) State() string {
	switch {
	case r.Want == spawner.WantGone && r.IsKernel():
		return "stopping"
	case r.Want == spawner.WantGone:
		return "being discarded"
	case r.Phase.Active() && r.Want == spawner.WantStopped:
		return "stopping"
	case r.standsBy():
		return "standby"
	case r.Workload.Held && r.Phase == spawner.Pending || r.heldThere():
		return "held"
	case r.Phase == spawner.Pending || r.Phase == spawner.Starting && r.Detail != "":
		return "waiting"
	case r.Phase == spawner.Leased || r.Phase == spawner.Starting || r.Phase == spawner.Booting:
		return "starting"
	case r.Phase != spawner.Stopped:
		return string(r.Phase)
	case r.Dormant():
		return "held"
	case r.Outcome != nil && r.Outcome.Canceled:
		return r.either("canceled", "stopped")
	case r.Outcome != nil && r.Outcome.Failed:
		return "failed"
	default:
		return r.either("done", "stopped")
	}
}

func (r row) either(job, session string) string {
	if r.IsJob() {
		return job
	}
	return session
}

// Moving reports whether something goes on that is worth watching.
func (r row) Moving() bool {
	if r.standsBy() {
		return false
	}
	return r.Phase.Active() && (r.Phase != spawner.Running || r.Want != spawner.WantRunning) ||
		r.Phase == spawner.Removing || r.IsJob() && r.Phase.Active()
}

// CanStop reports whether there is something to stop that is not being stopped.
func (r row) CanStop() bool {
	return r.Phase.Active() && r.Phase != spawner.Stopping && r.Want == spawner.WantRunning
}

// StopWord is what stopping is called now.
func (r row) StopWord() string {
	switch {
	case r.IsJob():
		return "Cancel"
	case r.Phase == spawner.Running && r.IsKernel(), r.standsBy():
		return "Shut down"
	case r.Phase == spawner.Running:
		return "Stop"
	default:
		return "Cancel start"
	}
}

// CanDiscard reports whether it has something to discard: a session's changes, a job's files.
func (r row) CanDiscard() bool {
	return !r.IsKernel() && r.Want != spawner.WantGone && (r.Phase == spawner.Stopped ||
		r.CanStop() && !r.IsJob() && r.Phase == spawner.Running)
}

// KeepFor is how long it can be kept, zero when it cannot.
func (r row) KeepFor() time.Duration {
	if !r.PlannedStop.CanKeep {
		return 0
	}
	return min(keepFor, r.PlannedStop.MaxKeep).Truncate(time.Minute)
}

// Kept reports whether its user keeps it, and it is not stopped before that is over.
func (r row) Kept() bool {
	return r.Phase == spawner.Running && r.KeepUntil.After(time.Now()) && !r.PlannedStop.At.Before(r.KeepUntil)
}

// NeverStops reports whether it runs until somebody stops it.
func (r row) NeverStops() bool {
	return !r.IsJob() && r.Phase == spawner.Running && r.Want == spawner.WantRunning && r.PlannedStop.At.IsZero()
}

// Why says why it will be stopped. One that its user keeps is not to read as if it were idle already.
func (r row) Why() string {
	switch {
	case r.KeepUntil.Equal(r.PlannedStop.At):
		return "you keep it until then"
	case r.Kept():
		return "then it stops (" + r.PlannedStop.Why + ")"
	}
	return r.PlannedStop.Why
}

// Line says its place in line, or what it waits for; empty when it does not wait.
func (r row) Line() string {
	switch {
	case r.Dormant():
		return "gave its slot back: start it again to resume"
	case r.heldThere():
		return "at " + strings.TrimPrefix(r.Detail, spawner.HeldAt)
	case r.Queue.Place == 0:
		return r.Detail
	}
	return strings.TrimLeft(strings.TrimPrefix(r.Queue.String(), "Waiting for room"), ":, ") // State says that it waits
}

// Profile returns the profile's title.
func (r row) Profile() string { return profileTitle(r.Catalogue, r.Spec.Profile) }

// Image returns the title of a session's image.
func (r row) Image() string { return ImageTitle(r.Catalogue, r.Spec.Image) }

// Place says where it runs, or ran last, if that is not this host.
func (r row) Place() string {
	pool := poolWords(r.Catalogue, r.Backend)
	if pool == "" || r.Host == "" {
		return pool
	}
	return r.Host + ", in " + pool
}

// Environment returns the digest of what a job runs in or a session started from, as short as people compare it.
func (r row) Environment() string {
	_, hex, _ := strings.Cut(r.Spec.Environment, ":")
	return hex[:min(12, len(hex))]
}

// EnvironmentPage is the path of the page of that environment; empty where there are no such pages.
func (r row) EnvironmentPage() string {
	if !r.Visit.Environments {
		return ""
	}
	return environmentPage(r.Visit, r.Spec.Environment)
}

// Ended is how the last start ended; nil while it goes on, or when there is nothing to say.
func (r row) Ended() *spawner.Outcome {
	if r.Phase.Active() || r.Outcome == nil || r.Outcome.Reason == "" {
		return nil
	}
	return r.Outcome
}

// Details is what the page of one workload shows beside it.
type Details struct {
	Item
	Steps []spawner.Event // of the last start, so far
	Tail  string          // the last lines of its output
	// Parameters are what sets a point apart from the others of its scan.
	Parameters map[string]string
	Data       *hubapi.DataReport // what was found of its user's data in a session; nil: nothing has looked
	Charts     []Chart            // of what it has used
	// Code is what a job runs, and CodeName its file; empty: nothing is to be shown.
	Code, CodeName string
}

// Chart is a picture of numbers over time.
type Chart struct {
	Name string
	SVG  template.HTML
}

type single struct {
	row
	Steps      []spawner.Event
	Tail       string
	Parameters map[string]string
	Data       *hubapi.DataReport
	Charts     []Chart
	payload
}

// Cut reports whether the first steps of the start are not known: a restart of the service forgets them.
func (s single) Cut() bool {
	return s.Phase.Active() && (len(s.Steps) == 0 || s.Steps[0].Percent != 0)
}

// Percent is how far the start has come; -1 when that is not known.
func (s single) Percent() int {
	for i := len(s.Steps) - 1; i >= 0; i-- {
		if p := s.Steps[i].Percent; p >= 0 {
			return min(p, 100)
		}
	}
	return -1
}

// Last is the number of the last step.
func (s single) Last() int64 {
	if len(s.Steps) == 0 {
		return 0
	}
	return s.Steps[len(s.Steps)-1].Seq
}

// Single answers with the page of one session or job.
func Single(w http.ResponseWriter, v Visit, c catalog.Catalogue, d Details) error {
	s := single{
		row: row{Item: d.Item, Visit: v, Catalogue: c}, Steps: d.Steps, Tail: d.Tail, Parameters: d.Parameters,
		Data: d.Data, Charts: d.Charts,
	}
	s.payload = s.payloadOf(d.CodeName, d.Code)
	f := frame{Title: s.Called() + " " + s.Title(), Refresh: 30, Script: true, Visit: v, Body: s}
	if s.Moving() || s.Looking() {
		f.Refresh = 3
	}
	return write(w, http.StatusOK, "single.html", f)
}

// Discard asks whether a workload is really to be discarded.
func Discard(w http.ResponseWriter, v Visit, c catalog.Catalogue, i Item) error {
	r := row{Item: i, Visit: v, Catalogue: c}
	return write(w, http.StatusOK, "discard.html", frame{Title: "Discard " + r.Title() + "?", Visit: v, Body: r})
}
