package webui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"slipway/hubapi"
	"slipway/spawner/catalog"
)

// JobsShown bounds the tables of jobs and of scans on a page of the overview.
const JobsShown = 20

// PageOf returns which page is shown of lists of so many rows, and how many pages there are: what is asked for may have
// gone meanwhile.
func PageOf(asked int, rows ...int) (page, pages int) {
	pages = max(1, (slices.Max(rows)+JobsShown-1)/JobsShown)
	return min(max(1, asked), pages), pages
}

// OnPage returns what of a list is on a page.
func OnPage[T any](list []T, page int) []T {
	from := min(len(list), (page-1)*JobsShown)
	return list[from:min(len(list), from+JobsShown)]
}

// OverviewView is what the overview is made of.
type OverviewView struct {
	Sessions, Jobs []Item
	Kernels        []Item
	Scans          []hubapi.Scan
	Filter         hubapi.JobFilter // by which Jobs and Scans were chosen
	Sort           string           // one of JobOrders: how Jobs are sorted
	Page, Pages    int              // of Jobs and Scans, from 1
	All            bool             // they are everybody's
}

type overview struct {
	OverviewView
	Sessions, Jobs []row
	Kernels        []row
	Scans          []scanRow
}

// Filtered reports whether jobs or scans may be there that are not chosen.
func (o overview) Filtered() bool { return o.Filter != hubapi.JobFilter{} }

// Newer and Older return the link of the next page, empty where there is none.
func (o overview) Newer() string { return o.link(o.Page - 1) }

// Older is Newer's other direction.
func (o overview) Older() string { return o.link(o.Page + 1) }

func (o overview) link(page int) string {
	if page < 1 || page > o.Pages {
		return ""
	}
	q := url.Values{"page": {strconv.Itoa(page)}}
	for name, value := range map[string]string{"state": o.Filter.State, "name": o.Filter.Name, "since": o.Filter.Since, "sort": o.Sort} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.All {
		q.Set("all", "1")
	}
	return "?" + q.Encode() + "#found"
}

// JobOrder is how jobs can be sorted.
type JobOrder struct{ Value, Words string }

// JobOrders returns the orders of jobs.
func JobOrders() []JobOrder {
	return []JobOrder{
		{"", "running first"}, {"newest", "newest"}, {"oldest", "oldest"}, {"name", "name"}, {"state", "state"},
		{"longest", "longest run"},
	}
}

// Orders returns the same.
func (o overview) Orders() []JobOrder { return JobOrders() }

// States returns the states by which jobs can be chosen.
func (o overview) States() []hubapi.State { return hubapi.Order() }

// age is a time within which jobs can be chosen.
type age struct{ Value, Words string }

// Spans returns the choices of Since, with the one that the page was asked for.
func (o overview) Spans() []age {
	spans := []age{{"", "any time"}, {"1d", "the last day"}, {"7d", "the last 7 days"}, {"30d", "the last 30 days"}}
	if !slices.ContainsFunc(spans, func(s age) bool { return s.Value == o.Filter.Since }) {
		spans = append(spans, age{o.Filter.Since, "since " + o.Filter.Since})
	}
	return spans
}

// Overview answers with the visitor's sessions, kernels, scans and jobs.
func Overview(w http.ResponseWriter, v Visit, c catalog.Catalogue, o OverviewView) error {
	body, back := overview{OverviewView: o}, "list"
	if o.All {
		back = "all"
	}
	rows := func(items []Item) (out []row) {
		for _, i := range items {
			out = append(out, row{Item: i, Visit: v, Catalogue: c, Back: back})
		}
		return out
	}
	body.Sessions, body.Kernels, body.Jobs = rows(o.Sessions), rows(o.Kernels), rows(o.Jobs)
	for _, s := range o.Scans {
		body.Scans = append(body.Scans, scanRow{s, v, c})
	}
	return write(
		w, http.StatusOK, "overview.html",
		frame{Title: "Sessions and jobs", Refresh: 30, Script: true, Visit: v, Body: body},
	)
}
