package webui

import (
	"fmt"
	"net/http"

	"slipway/hubapi"
)

// ask is a page that asks whether something is really to be done.
type ask struct {
	question
	Text, Yes string
}

// question is what all pages have that ask before something is done.
type question struct {
	Visit              Visit
	Question           string
	Action, Page, Back string // where its form goes, whose page it is of, and the way back
}

// AskScan asks whether something is really to be done to all points of a scan: cancel, requeue or discard. It reports
// false when there is no such thing.
func AskScan(w http.ResponseWriter, v Visit, scan hubapi.Scan, verb string) (known bool, err error) {
	s := scanRow{Scan: scan, Visit: v}
	a := ask{question: question{Visit: v, Action: s.Page() + "/" + verb, Page: s.Page()}}
	waiting, running := s.States[hubapi.JobPending], s.States[hubapi.JobRunning]
	switch verb {
	case "cancel":
		a.Question, a.Yes = "Cancel "+s.Title()+"?", "Cancel them all"
		a.Text = "This cancels " + both(
			pointsIf(waiting, "waits", "wait"), pointsIf(running, "runs", "run"),
		) + ". What has ended stays as it is."
	case "requeue":
		a.Question, a.Yes = "Put what runs of "+s.Title()+" back in line?", "Put them back in line"
		a.Text = "This ends " + pointsThat(running, "runs", "run") + ", to begin anew when their turn comes. What they have not written to your home or elsewhere outside is lost."
	case "discard":
		a.Question, a.Yes = "Discard what has ended of "+s.Title()+"?", "Discard for good"
		a.Text = "This removes the records, the output and the files of " + pointsThat(
			s.Points-waiting-running, "has ended", "have ended",
		) + ". The others go on."
	default:
		return false, nil
	}
	if done := map[string]int{"cancel": waiting + running, "requeue": running, "discard": s.Points - waiting - running}; done[verb] == 0 {
		a.Yes, a.Text = "", "There is nothing to do: "+nothingLeft(verb)+"."
	}
	return true, write(w, http.StatusOK, "ask.html", frame{Title: a.Question, Visit: v, Body: a})
}

func pointsThat(n int, one, more string) string {
	if n == 1 {
		return "1 point that " + one
	}
	return grouped(n) + " points that " + more
}

// nothingLeft says why there is no point to which it could be done.
func nothingLeft(verb string) string {
	return map[string]string{
		"cancel": "all its points have ended", "requeue": "none of its points runs",
		"discard": "none of its points has ended",
	}[verb]
}

// pointsIf is pointsThat; empty when there are none.
func pointsIf(n int, one, more string) string {
	if n == 0 {
		return ""
	}
	return pointsThat(n, one, more)
}

// both joins what of two there is.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " and " + b
}

// Why is what the page that explains a wait is made of.
type Why struct {
	Title           string // of what waits
	Why             hubapi.Explanation
	Here            string // the page's own path
	Back, BackLabel string
}

// Counts says how many slots would do.
func (y Why) Counts() string {
	if y.Why.Slots == 0 {
		return ""
	}
	return fmt.Sprintf(
		"Of %s %s what it asks for; %s free for it now.", counted(grouped(y.Why.Slots), "slot"),
		having(y.Why.Fit, "has", "have"), having(y.Why.Free, "is", "are"),
	)
}

func having(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + more
}

// WhyPage answers with what something waits for.
func WhyPage(w http.ResponseWriter, v Visit, y Why) error {
	return write(w, http.StatusOK, "why.html", frame{Title: "Why does " + y.Title + " wait?", Visit: v, Body: y})
}
