package webui

import (
	"net/http"

	"slipway/hubapi"
	"slipway/spawner/catalog"
)

// JobsShown bounds the tables of jobs and of scans on the overview.
const JobsShown = 50

// OverviewView is what the overview is made of.
type OverviewView struct {
	Sessions, Jobs      []Item
	Kernels             []Item
	Scans               []hubapi.Scan
	MoreJobs, MoreScans int  // that are not among them
	All                 bool // they are everybody's
}

type overview struct {
	OverviewView
	Sessions, Jobs []row
	Kernels        []row
	Scans          []scanRow
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
		body.Scans = append(body.Scans, scanRow{s, v})
	}
	return write(w, http.StatusOK, "overview.html", frame{Title: "Sessions and jobs", Refresh: 30, Script: true, Visit: v, Body: body})
}
