// Package progress reports how far long work on environments has come (freezes, imports, conversions of images), and
// lets callers who want the same work join the one run of it (singleflight).
//
// It promises that every stage is reported to each caller, on the caller's own goroutine, and that work is canceled
// when its last caller has gone. It must not know what the work is.
package progress

import (
	"sync"
	"time"
)

// Stage is a step of a freeze.
type Stage string

// The stages, in their usual order. A freeze that finds nothing changed goes from Scanning to Done; one whose base is
// ready has no Preparing; one whose changes cannot be grafted has Packing instead of Reading, Settling and Indexing.
const (
	Scanning  Stage = "scanning"  // looking for changes
	Preparing Stage = "preparing" // converting the base image, once for each
	Reading   Stage = "reading"   // storing the changes while the source runs
	Settling  Stage = "settling"  // storing what changed meanwhile; the source is paused
	Indexing  Stage = "indexing"  // writing the merged tree's tables
	Packing   Stage = "packing"   // compressing the whole tree; the source is paused
	Writing   Stage = "writing"   // finishing the image
	Done      Stage = "done"
)

// The stages of an import. It ends with Writing and Done, as a freeze does.
const (
	Fetching Stage = "fetching" // receiving what is not here; reported by the caller that receives it
	Checking Stage = "checking" // comparing what came with its digests
)

// Progress says how far a freeze has come within its stage.
type Progress struct {
	Stage   Stage   `json:"stage"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Total   int64   `json:"total,omitempty"`   // of Bytes; 0 when not known
	Percent float64 `json:"percent,omitempty"` // of the stage, 0 to 100; 0 when not known

	// Changed is how many files the session has changed, and Pause how long it will be paused for them, about. Both are
	// set where the pause will be long.
	Changed int64         `json:"changed,omitempty"`
	Pause   time.Duration `json:"pause,omitempty"`
}

// Meter collects the progress of one piece of work for any number of readers. A stage that was over before a reader
// looked is still told to it.
type Meter struct {
	mu   sync.Mutex
	past []Progress // finished stages
	now  Progress

	changed int64 // told with all stages before the pause
	pause   time.Duration
}

// Expect notes how many files have changed, and how long the source will stand still for it.
func (m *Meter) Expect(changed int64, pause time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed, m.pause = changed, pause
}

// At says how far a stage has come; the stage before is over when it is another one.
func (m *Meter) At(s Stage, files, bytes, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Stage != s && m.now.Stage != "" {
		m.past = append(m.past, m.now)
	}
	m.now = Progress{Stage: s, Files: files, Bytes: bytes, Total: total}
	if m.pause > 0 && (s == Preparing || s == Reading) {
		m.now.Changed, m.now.Pause = m.changed, m.pause
	}
	if total > 0 {
		m.now.Percent = min(100, 100*float64(bytes)/float64(total))
	}
}

// Show makes another's progress this one's.
func (m *Meter) Show(p Progress) { m.At(p.Stage, p.Files, p.Bytes, p.Total) }

// since returns the stages that ended after the first n, and the present state.
func (m *Meter) since(n int) []Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := append([]Progress(nil), m.past[n:]...)
	return append(out, m.now)
}
