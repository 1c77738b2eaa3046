package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/units"
)

// boardRows is how many rows a board shows at most.
const boardRows = 20

// Row is one job on a board.
type Row struct {
	Order    int // among those of its state
	ID       string
	Label    string
	State    string
	Progress *hubapi.JobProgress
	Where    string
	Reason   string
	Attempt  int
	Up, End  *time.Time
}

// Board is what is watched, and how it stands. It draws itself into any room; it is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	title   string
	rows    []Row
	at      map[string]int // of rows, by ID
	total   int
	summary string
	changes int
}

// NewBoard returns a board without rows.
func NewBoard(title string) *Board { return &Board{title: title, at: map[string]int{}} }

// Name sets another title.
func (b *Board) Name(title string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.title = title
}

// Set puts a row where its job's was.
func (b *Board) Set(r Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, known := b.at[r.ID]
	if !known {
		at = len(b.rows)
		b.at[r.ID], b.rows = at, append(b.rows, r)
	} else if r.Label == "" {
		r.Label = b.rows[at].Label
	}
	b.rows[at] = r
	b.changes++
}

// Sum sets what all of it comes to.
func (b *Board) Sum(words string, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.summary, b.total = words, total
	b.changes++
}

// now returns the summary, how often it or a row has changed, and the failures that there are.
func (b *Board) now() (summary string, changes int, failed []Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.rows {
		if r.State == string(hubapi.JobFailed) {
			failed = append(failed, r)
		}
	}
	return b.summary, b.changes, failed
}

// rank orders states by how much they are worth a look.
func rank(state string) int {
	return slices.Index([]string{
		string(hubapi.JobFailed), string(hubapi.JobRunning), string(hubapi.JobCanceled), string(hubapi.JobPending),
		"held", string(hubapi.JobDone),
	}, state)
}

// pick returns the rows that are shown: those that have failed and that run first, of the failures no more than leave
// room for what runs.
func pick(rows []Row, most int) []Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Or(rank(a.State)-rank(b.State), a.Order-b.Order) })
	failed := 0
	for failed < len(rows) && rows[failed].State == string(hubapi.JobFailed) {
		failed++
	}
	others := min(len(rows)-failed, most/2)
	keep := min(failed, most-others)
	return slices.Concat(rows[:keep], rows[failed:min(len(rows), failed+most-keep)])
}

// lines draw the board into a window.
func (b *Board) lines(width, height int, now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := 0
	for _, r := range b.rows {
		if hubapi.State(r.State).Ended() {
			ended++
		}
	}
	total := max(b.total, len(b.rows))
	lines := []string{b.title, fmt.Sprintf(
		"%s %s of %s ended: %s", bar(float64(ended), float64(total), 20), units.Grouped(int64(ended)),
		units.Grouped(int64(total)), b.summary,
	)}
	shown := pick(b.rows, max(1, min(boardRows, height-4)))
	lines = append(lines, rowLines(shown, width, now)...)
	if more := total - len(shown); more > 0 && len(shown) > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", units.Grouped(int64(more))))
	}
	for i, line := range lines {
		lines[i] = cut(Printable(line), width)
	}
	return lines
}

// rowLines put rows in columns. The remark has what room is left.
func rowLines(rows []Row, width int, now time.Time) []string {
	cells, widths := make([][]string, len(rows)), [4]int{}
	for i, r := range rows {
		cells[i] = []string{cut(r.Label, max(12, width/3)), stateOf(r), progressOf(r), timeOf(r, now)}
		for c := range widths {
			widths[c] = max(widths[c], wide(cells[i][c]))
		}
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		var line strings.Builder
		for c, cell := range cells[i] {
			if widths[c] > 0 {
				line.WriteString(cell + strings.Repeat(" ", widths[c]-wide(cell)+2))
			}
		}
		line.WriteString(strings.TrimSpace(r.Where + " " + r.Reason))
		if r.Progress != nil && r.Reason == "" {
			line.WriteString(" " + r.Progress.Text)
		}
		lines[i] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

func stateOf(r Row) string {
	if r.Attempt > 1 {
		return fmt.Sprintf("%s (try %d)", r.State, r.Attempt)
	}
	return r.State
}

func progressOf(r Row) string {
	switch p := r.Progress; {
	case p == nil, r.State == string(hubapi.JobDone): // payloads need not say the last step
		return ""
	case p.Of > 0:
		return fmt.Sprintf("%s %3.0f%%", bar(p.Done, p.Of, 10), 100*min(1, max(0, p.Done/p.Of)))
	default:
		return fmt.Sprintf("%g", p.Done)
	}
}

func timeOf(r Row, now time.Time) string {
	if r.Up == nil {
		return ""
	}
	if r.End != nil {
		now = *r.End
	}
	s := int(max(0, now.Sub(*r.Up)).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// bar draws how much of something is done.
func bar(done, of float64, width int) string {
	full := 0
	if of > 0 {
		full = int(float64(width) * min(1, max(0, done/of)))
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}

// wide returns how many columns of a terminal a text takes.
func wide(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r >= 0x300 && r <= 0x36f || r >= 0x200b && r <= 0x200f || r >= 0xfe00 && r <= 0xfe0f:
		return 0
	case r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 ||
		r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd:
		return 2
	default:
		return 1
	}
}

// cut shortens a text to a number of columns.
func cut(s string, width int) string {
	if wide(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}
