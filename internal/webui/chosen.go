package webui

import (
	"net/http"

	"slipway/spawner/catalog"
)

// Chosen is what the page is made of that asks whether something is to be done to several jobs.
type Chosen struct {
	Verb string // cancel, retry or discard
	Jobs []Item // to which it can be done
	Left int    // how many others were chosen
	All  bool   // they were chosen among everybody's
}

type chosenBody struct {
	question
	Text, Yes, Verb string
	Rows            []row
}

// AskChosen asks whether something is to be done to several jobs.
func AskChosen(w http.ResponseWriter, v Visit, c catalog.Catalogue, ask Chosen) error {
	words := map[string]struct{ question, yes, text string }{
		"cancel":  {"Cancel", "Cancel them", "What they have not written to your home or elsewhere outside is lost."},
		"retry":   {"Retry", "Retry them", "Each runs again with the limits that it had. To give one more memory or time, retry it from its own page."},
		"discard": {"Discard", "Discard them for good", "This removes their records, their output and their files."},
	}[ask.Verb]
	b := chosenBody{
		question: question{
			Visit: v, Question: words.question + " " + counted(len(ask.Jobs), "job") + "?", Action: v.Prefix + "jobs-chosen",
			Page: v.Prefix,
		},
		Text: words.text, Yes: words.yes, Verb: ask.Verb,
	}
	if ask.All {
		b.Page, b.Back = v.Prefix+"?all=1", "all"
	}
	if len(ask.Jobs) == 0 {
		b.Text, b.Yes = "There is nothing to do: it can be done to none of the jobs that you have chosen.", ""
	}
	if ask.Left > 0 && len(ask.Jobs) > 0 {
		b.Text += " " + counted(ask.Left, "job") + " that you have chosen, too, cannot be meant, and stays as it is."
	}
	for _, one := range ask.Jobs {
		b.Rows = append(b.Rows, row{Item: one, Visit: v, Catalogue: c})
	}
	return write(w, http.StatusOK, "chosen.html", frame{Title: b.Question, Visit: v, Body: b})
}
