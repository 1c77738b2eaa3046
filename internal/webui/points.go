package webui

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/units"
	"slipway/spawner/catalog"
)

// Point is a job of a scan with what sets it apart from the others.
type Point struct {
	Item
	Parameters map[string]string
}

// ScanView is what the page of a scan is made of.
type ScanView struct {
	Scan   hubapi.Scan
	Points []Point // of one leaf of the table
	State  string  // whose points are shown; empty: all
	Leaf   int     // from 1
	Leaves int
	From   int // the number, among those of State, of the first that is shown, from 1
	Most   int // of them in all
	// Progress draws how many points had ended at each time.
	Progress template.HTML
	// Code is what each point runs, and CodeName its file; empty: nothing is to be shown.
	Code, CodeName string
}

type scanBody struct {
	scanRow
	payload
	View   ScanView
	Names  []string // of the parameters that have a column; none: they stand in one together
	Rows   []pointRow
	Picks  []pick
	Others []pick // leaves of the table
}

// columnsMost is how many parameters have columns of their own.
const columnsMost = 4

// ScanPage answers with the page of a scan.
func ScanPage(w http.ResponseWriter, v Visit, c catalog.Catalogue, s ScanView) error {
	b := scanBody{scanRow: scanRow{Scan: s.Scan, Visit: v, Catalogue: c}, View: s}
	b.payload = payload{s.CodeName, s.Code, "Each point runs this, with its own parameters."}
	b.Names = parameterNames(s.Points)
	if len(b.Names) > columnsMost {
		b.Names = nil
	}
	for _, p := range s.Points {
		b.Rows = append(b.Rows, pointRow{row{Item: p.Item, Visit: v, Catalogue: c}, p.Parameters, b.Names})
	}
	b.Picks, b.Others = b.picks(), b.leaves()
	f := frame{Title: "Scan " + b.Title(), Refresh: 30, Script: true, Visit: v, Body: b}
	return write(w, http.StatusOK, "scan.html", f)
}

// CanRelease looks at the points that are shown, too: a batch system may hold any of them.
func (b scanBody) CanRelease() bool {
	return b.scanRow.CanRelease() || slices.ContainsFunc(b.Rows, func(p pointRow) bool { return p.heldThere() })
}

func parameterNames(points []Point) []string {
	seen := map[string]bool{}
	var names []string
	for _, p := range points {
		for name := range p.Parameters {
			if !seen[name] {
				seen[name], names = true, append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// pick is a link that chooses what of the points is shown.
type pick struct {
	ID, Words, Link string
	Chosen          bool
}

// picks choose by state, as far as there are several.
func (b scanBody) picks() []pick {
	all := []pick{{"pick-all", "all " + grouped(b.Points), b.Page(), b.View.State == ""}}
	for _, state := range hubapi.Order() {
		if n := b.States[state]; n > 0 || b.View.State == string(state) {
			all = append(all, pick{
				"pick-" + string(state), grouped(n) + " " + stateOfPoints(string(state)), b.leaf(string(state), 1),
				b.View.State == string(state),
			})
		}
	}
	if len(all) < 3 && b.View.State == "" {
		return nil
	}
	return all
}

// leaves lead to the other leaves of the table.
func (b scanBody) leaves() (all []pick) {
	for _, to := range []struct {
		id, words string
		leaf      int
	}{
		{"leaf-first", "First", 1}, {"leaf-previous", "Previous", b.View.Leaf - 1},
		{"leaf-next", "Next", b.View.Leaf + 1}, {"leaf-last", "Last", b.View.Leaves},
	} {
		if to.leaf >= 1 && to.leaf <= b.View.Leaves && to.leaf != b.View.Leaf {
			all = append(all, pick{ID: to.id, Words: to.words, Link: b.leaf(b.View.State, to.leaf)})
		}
	}
	return all
}

func (b scanBody) leaf(state string, leaf int) string {
	q := url.Values{}
	if state != "" {
		q.Set("state", state)
	}
	if leaf > 1 {
		q.Set("leaf", fmt.Sprint(leaf))
	}
	if len(q) == 0 {
		return b.Page()
	}
	return b.Page() + "?" + q.Encode()
}

// Shown says which of the points are shown.
func (b scanBody) Shown() string {
	if b.View.Most == 0 {
		return "No points are " + stateOfPoints(b.View.State) + " now."
	}
	return fmt.Sprintf("%s to %s of %s", grouped(b.View.From), grouped(b.View.From+len(b.Rows)-1), grouped(b.View.Most))
}

// pointRow is a point as the page of its scan shows it.
type pointRow struct {
	row
	parameters map[string]string
	names      []string // of the columns
}

// Values returns what stands in the columns of the parameters.
func (p pointRow) Values() (all []cell) {
	for _, name := range p.names {
		all = append(all, cell{name, cut(p.parameters[name])})
	}
	return all
}

// cell is a parameter's value below its name.
type cell struct{ Name, Value string }

// Together returns all parameters in one.
func (p pointRow) Together() string { return parameterWords(p.parameters) }

func parameterWords(parameters map[string]string) string {
	var words []string
	for _, name := range parameterNames([]Point{{Parameters: parameters}}) {
		words = append(words, name+"="+cut(parameters[name]))
	}
	return strings.Join(words, ", ")
}

// valueShown is how much of a parameter's value a table shows.
const valueShown = 60

func cut(value string) string {
	if r := []rune(value); len(r) > valueShown {
		return string(r[:valueShown]) + "..."
	}
	return value
}

// Here names the host of a point that runs, or ran, where the service does.
func (p pointRow) Here() string {
	if p.Remote || p.Up.IsZero() {
		return ""
	}
	return "this host"
}

// Peak says how much memory it had at most.
func (p pointRow) Peak() string {
	if p.Outcome == nil || p.Phase.Active() || p.Outcome.MaxRSS <= 0 {
		return ""
	}
	return "at most " + units.MemoryWords(p.Outcome.MaxRSS)
}

// At is when it ended; zero while it goes on.
func (p pointRow) At() time.Time {
	if p.Phase.Active() || p.Outcome == nil {
		return time.Time{}
	}
	return p.Outcome.At
}
