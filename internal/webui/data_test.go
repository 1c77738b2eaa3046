package webui

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/spawner"
)

// TestDataOnTheSessionsPage: what is wrong comes first, with what to do; the button is a button of a form, and is there
// while there is something that could look.
func TestDataOnTheSessionsPage(t *testing.T) {
	report := hubapi.DataReport{At: time.Unix(1e9, 0), Checks: []hubapi.DataCheck{
		{Check: "clock", Result: hubapi.CheckOK, Finding: "agrees"},
		{Check: "CVMFS a.test", Result: hubapi.CheckFail, Finding: "it does not <b>answer</b>", Remedy: "look again with `slipway <x>`"},
		{Check: "token", Result: hubapi.CheckWarn, Finding: "there is none"},
	}}
	page := func(phase spawner.Phase, data *hubapi.DataReport) string {
		w := httptest.NewRecorder()
		if err := Single(w, someVisit(), catalogue(), Details{Item: Item{Workload: session(phase)}, Data: data}); err != nil {
			t.Fatal(err)
		}
		return w.Body.String()
	}
	text := page(spawner.Running, &report)
	var at []int
	for _, words := range []string{"Your data", "CVMFS a.test", ">fail<", "it does not &lt;b&gt;answer&lt;/b&gt;", "look again with <code>slipway &lt;x&gt;</code>", ">warn<", "there is none", ">ok<", "agrees", `action="/b/services/slipway/sessions/s-1/check"`, "Check again"} {
		at = append(at, strings.Index(text, words))
	}
	if !slices.IsSorted(at) || at[0] < 0 {
		t.Errorf("%v in\n%s", at, text)
	}
	for name, text := range map[string]string{"a stopped one": page(spawner.Stopped, &report), "none": page(spawner.Running, nil)} {
		if strings.Contains(text, "Check again") || strings.Contains(text, " data-soon>") {
			t.Errorf("%s has the button, or is to be asked for often", name)
		}
	}
	report.Running = true
	if text := page(spawner.Running, &report); strings.Contains(text, "Check again") || !strings.Contains(text, "being looked at now") || !strings.Contains(text, " data-soon>") {
		t.Error("while it is looked at")
	}
}
