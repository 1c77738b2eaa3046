package webui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/units"
	"slipway/spawner"
)

// progressBar is what a payload says of how far it is.
type progressBar struct {
	Share float64 // 0 to 1; negative: it is not known of how much
	Words string
}

// ProgressBar returns nil where the payload says nothing, or the job waits.
func (r row) ProgressBar() *progressBar {
	if r.Progress == nil || r.Phase.Active() && r.Phase != spawner.Running && r.Phase != spawner.Stopping {
		return nil
	}
	return progressBarOf(*r.Progress)
}

func progressBarOf(p hubapi.JobProgress) *progressBar {
	f := progressBar{Share: -1, Words: number(p.Done)}
	if p.Of > 0 {
		f.Share = min(max(p.Done/p.Of, 0), 1)
		f.Words = fmt.Sprintf("%s of %s (%d %%)", number(p.Done), number(p.Of), int(f.Share*100))
	}
	f.Words += behind(", ", p.Text)
	return &f
}

// stage is a part of what has happened to a job, and how long it took.
type stage struct {
	Name string
	At   time.Time
	For  string // empty: it goes on, or takes no time
}

// Timeline is what has happened to a job in its last try.
func (r row) Timeline() []stage {
	all := []stage{{"Submitted", r.Created, ""}}
	began := r.Up
	if Ran(r.Workload) < 0 {
		began = time.Time{}
	}
	asked := r.asked()
	switch {
	case !began.IsZero():
		all = append(all, stage{"Waited and prepared", asked, took(began.Sub(asked))}, r.ran(began))
	case r.Phase.Active():
		all = append(all, stage{"Waits or is prepared", asked, took(time.Since(asked))})
	}
	if !r.Phase.Active() && r.Outcome != nil {
		all = append(all, stage{"Ended", r.Outcome.At, ""})
	}
	return all
}

// ran is the stage in which it runs. In a batch system that is longer than its program does.
func (r row) ran(began time.Time) stage {
	if r.Remote && r.programTook() > 0 {
		return stage{"Ran, with start and transfer", began, took(Ran(r.Workload))}
	}
	return stage{"Ran", began, r.Took()}
}

// programTook is how long the program of a job ran that has ended; zero: that was not measured.
func (r row) programTook() time.Duration {
	if r.Outcome == nil || r.Phase.Active() {
		return 0
	}
	return time.Duration(r.Outcome.Wall * float64(time.Second))
}

// asked is when its last try was asked for.
func (r row) asked() time.Time {
	if r.Started.After(r.Created) {
		return r.Started
	}
	return r.Created
}

// Took is how long it has run, or ran last; empty: it has not begun.
func (r row) Took() string {
	if d := r.programTook(); d > 0 {
		return took(d)
	}
	if d := Ran(r.Workload); d >= 0 {
		return took(d)
	}
	return ""
}

// Ran returns how long a workload has run, or ran last; negative: it has not begun.
func Ran(w spawner.Workload) time.Duration {
	switch {
	case w.Up.IsZero() || w.Phase.Active() && w.Phase != spawner.Running && w.Phase != spawner.Stopping:
		return -1
	case w.Outcome != nil && !w.Phase.Active():
		return max(0, w.Outcome.At.Sub(w.Up))
	default:
		return max(0, time.Since(w.Up))
	}
}

// Try says which try it is, where there is more than one: "2 of 4".
func (r row) Try() string {
	switch {
	case r.Attempt < r.Spec.Retries || r.Attempt == r.Spec.Retries && r.Attempt > 0:
		return fmt.Sprintf("%d of %d", r.Attempt+1, r.Spec.Retries+1)
	case r.Attempt > 0:
		return fmt.Sprint(r.Attempt + 1)
	default:
		return ""
	}
}

// try is how an earlier try ended.
type try struct {
	Number int
	spawner.Outcome
}

// Tries are the earlier ones of which something is kept, the latest first.
func (r row) Tries() (all []try) {
	first := r.Attempt - len(r.Attempts) + 1
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		all = append(all, try{first + i, r.Attempts[i]})
	}
	return all
}

// Word says in one word how a try ended.
func (t try) Word() string {
	switch {
	case t.Canceled:
		return "canceled"
	case t.Failed:
		return "failed"
	default:
		return "done"
	}
}

// CanRetry reports whether it can be tried again by who looks at it: nobody runs something as another.
func (r row) CanRetry() bool {
	return r.IsJob() && r.Mine && r.Phase == spawner.Stopped && r.Want != spawner.WantGone && r.Outcome != nil &&
		(r.Outcome.Failed || r.Outcome.Canceled)
}

// figure is a line of what it has used.
type figure struct{ Name, Words string }

// Figures are what the last try of a job has used, as far as it was measured.
func (r row) Figures() (all []figure) {
	o := r.Outcome
	if !r.IsJob() || o == nil || r.Phase.Active() {
		return nil
	}
	add := func(name, words string) {
		if words != "" {
			all = append(all, figure{name, words})
		}
	}
	add("Peak memory", ofMemory(o.MaxRSS, r.Spec.Resources.Memory))
	if o.Wall > 0 {
		add("Ran for", ofTime(o.Wall, r.Spec.TimeLimit))
	}
	if o.CPU > 0 {
		add("CPU time", cpuWords(o.CPU, o.Wall, r.Spec.Resources.CPUs))
	}
	if u := o.GPU; u != nil {
		add("Of its slice of a GPU", gpuUseWords(*u))
	}
	return all
}

func ofMemory(peak, asked int64) string {
	switch {
	case peak <= 0:
		return ""
	case asked <= 0:
		return units.MemoryWords(peak)
	default:
		return fmt.Sprintf(
			"%s of the %s asked for (%d %%)", units.MemoryWords(peak), units.MemoryWords(asked), peak*100/asked,
		)
	}
}

func ofTime(wall float64, limit time.Duration) string {
	words := took(time.Duration(wall * float64(time.Second)))
	if limit > 0 {
		words += ", of at most " + span(limit)
	}
	return words
}

func cpuWords(cpu, wall, cpus float64) string {
	words := took(time.Duration(cpu * float64(time.Second)))
	if wall >= 1 && cpus > 0 {
		words += fmt.Sprintf(" (%d %% of its %s)", int(math.Round(cpu*100/(wall*cpus))), counted(number(cpus), "CPU"))
	}
	return words
}

func gpuUseWords(u spawner.SliceUse) string {
	words := []string{fmt.Sprintf("busy %d %% of the time", int(math.Round(u.Busy*100)))}
	if u.Memory > 0 {
		words = append(words, "at most "+units.MemoryWords(u.Memory)+" of its memory")
	}
	if u.Energy > 0 {
		words = append(words, fmt.Sprintf("%.3g kJ", u.Energy/1000))
	}
	return strings.Join(words, ", ")
}

// waitFor is a job or scan that a job waits for.
type waitFor struct{ ID, Page string }

// WaitsFor are those that are not done yet.
func (r row) WaitsFor() (all []waitFor) {
	for _, id := range r.After {
		page := r.Visit.Prefix + "jobs/" + id
		if strings.HasPrefix(id, "scan-") {
			page = scanPage(r.Visit, id)
		}
		all = append(all, waitFor{id, page})
	}
	return all
}
