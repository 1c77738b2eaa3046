package images

import "sync"

// Stage is a step of a freeze.
type Stage string

// The stages, in their order. A freeze that finds nothing changed goes from Scanning to Done.
const (
	Scanning Stage = "scanning" // looking for changes
	Copying  Stage = "copying"  // taking the snapshot; the source is paused
	Packing  Stage = "packing"  // compressing the tree
	Writing  Stage = "writing"  // finishing the file and computing its digest
	Done     Stage = "done"
)

// Progress says how far a freeze has come within its stage.
type Progress struct {
	Stage   Stage   `json:"stage"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Total   int64   `json:"total,omitempty"`   // of Bytes; 0 when not known
	Percent float64 `json:"percent,omitempty"` // of the stage, 0 to 100; 0 when not known
}

// meter collects the progress of one freeze for any number of readers. A stage that was over before a reader looked is
// still told to it.
type meter struct {
	mu   sync.Mutex
	past []Progress // finished stages
	now  Progress
}

func (m *meter) begin(s Stage, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Stage != "" {
		m.past = append(m.past, m.now)
	}
	m.now = Progress{Stage: s, Total: total}
}

func (m *meter) add(files, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Files += files
	m.now.Bytes += bytes
	if m.now.Total > 0 {
		m.now.Percent = min(100, 100*float64(m.now.Bytes)/float64(m.now.Total))
	}
}

// set puts absolute figures where a stage is watched from outside.
func (m *meter) set(bytes int64, percent float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Bytes, m.now.Percent = bytes, percent
}

// since gives the stages that ended after the first n, and the present state.
func (m *meter) since(n int) []Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := append([]Progress(nil), m.past[n:]...)
	return append(out, m.now)
}

// total makes known what the stage will come to.
func (m *meter) total(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Total = bytes
}
