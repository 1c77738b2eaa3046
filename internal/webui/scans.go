package webui

import (
	"net/url"
	"strings"

	"slipway/hubapi"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// scanRow is a scan as the pages show it.
type scanRow struct {
	hubapi.Scan
	Visit     Visit
	Catalogue catalog.Catalogue
}

// Title names the scan.
func (s scanRow) Title() string {
	if s.Name == "" {
		return s.ID
	}
	return s.Name
}

// Page is the path of its own page.
func (s scanRow) Page() string { return scanPage(s.Visit, s.ID) }

func scanPage(v Visit, id string) string { return v.Prefix + "scans/" + url.PathEscape(id) }

// State says in one word how far it is, in the words of its points.
func (s scanRow) State() string { return stateOfPoints(s.Word()) }

// stateOfPoints returns the pages' word for a state of the API's.
func stateOfPoints(state string) string {
	if state == string(hubapi.JobPending) {
		return "waiting"
	}
	return state
}

// Counts counts the points by their states.
func (s scanRow) Counts() string {
	var words []string
	for _, state := range hubapi.Order() {
		if n := s.States[state]; n > 0 {
			words = append(words, grouped(n)+" "+stateOfPoints(string(state))+s.heldOf(state))
		}
	}
	return strings.Join(words, ", ")
}

func (s scanRow) heldOf(state hubapi.State) string {
	if state != hubapi.JobPending || s.Held == 0 {
		return ""
	}
	return " (" + grouped(s.Held) + " held)"
}

// Where names the backend.
func (s scanRow) Where() string { return backendWords(s.Catalogue, s.Backend) }

// Back is what its forms send: they lead back to its own page.
func (s scanRow) Back() string { return "" }

// EnvironmentPage is the path of the page of its environment; empty where there are no such pages.
func (s scanRow) EnvironmentPage() string {
	if !s.Visit.Environments {
		return ""
	}
	return environmentPage(s.Visit, s.Scan.Environment)
}

// ShortEnvironment returns its environment's digest as short as people compare it.
func (s scanRow) ShortEnvironment() string { return ShortDigest(s.Scan.Environment) }

// CanCancel reports whether anything of it is still to come to its end.
func (s scanRow) CanCancel() bool { return !s.Ended() }

// CanHold reports whether points of it wait that are not held.
func (s scanRow) CanHold() bool { return s.States[hubapi.JobPending] > s.Held }

// CanRelease reports whether points of it are held, by their owner or by the batch system.
func (s scanRow) CanRelease() bool { return s.Held > 0 || strings.HasPrefix(s.Waiting, spawner.HeldAt) }

// CanRequeue reports whether points of it run.
func (s scanRow) CanRequeue() bool { return s.States[hubapi.JobRunning] > 0 }

// CanRetry says of how many points the visitor can have another try; empty: of none.
func (s scanRow) CanRetry() string {
	if n := s.States[hubapi.JobFailed]; n > 0 && s.User == s.Visit.User {
		return grouped(n)
	}
	return ""
}

// CanDiscard reports whether points of it have ended.
func (s scanRow) CanDiscard() bool {
	return s.Points > s.States[hubapi.JobPending]+s.States[hubapi.JobRunning]
}

// CanAsk reports whether points of it wait.
func (s scanRow) CanAsk() bool { return s.States[hubapi.JobPending] > 0 }

// barWidth is how many characters a text bar has.
const barWidth = 24

// Bar draws the states of the points as a line of characters: it needs no colours, and no more than a font.
func (s scanRow) Bar() string { return textBar(s.States, s.Points, barWidth) }

// textBar gives each state its share of width characters, and one at least to each that there is.
func textBar(states map[hubapi.State]int, all, width int) string {
	var b strings.Builder
	left := width
	order := barOrder()
	for i, of := range order {
		n := states[of.state]
		if n == 0 {
			continue
		}
		later := 0 // characters that those behind need at least
		for _, o := range order[i+1:] {
			later += min(1, states[o.state])
		}
		long := max(1, min(left-later, n*width/all))
		if later == 0 {
			long = left
		}
		b.WriteString(strings.Repeat(of.sign, long))
		left -= long
	}
	return b.String()
}

// barPart is how a state looks in a bar.
type barPart struct {
	state hubapi.State
	sign  string
}

func barOrder() []barPart {
	return []barPart{
		{hubapi.JobDone, "█"}, {hubapi.JobFailed, "×"}, {hubapi.JobCanceled, "–"}, {hubapi.JobRunning, "▒"},
		{hubapi.JobPending, "·"},
	}
}
