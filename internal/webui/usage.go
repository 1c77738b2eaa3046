package webui

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"slipway/hubapi"
	"slipway/internal/units"
	"slipway/spawner"
)

// UsageView is what the page of what is used is made of.
type UsageView struct {
	List hubapi.UsageList
	All  bool    // it is everybody's
	Site []Chart // how the site was used; nil: the visitor is not to know
}

type usageBody struct {
	UsageView
	Rows []usageRow
	More int // that are not shown
}

// usageShown bounds the list of what runs.
const usageShown = 25

// usageRow is a session or job that runs.
type usageRow struct {
	hubapi.UsageNow
	Visit Visit
}

// UsagePage answers with what is used.
func UsagePage(w http.ResponseWriter, v Visit, u UsageView) error {
	body := usageBody{UsageView: u}
	body.More = max(0, len(u.List.Workloads)-usageShown)
	for _, one := range u.List.Workloads[:len(u.List.Workloads)-body.More] {
		body.Rows = append(body.Rows, usageRow{one, v})
	}
	return write(w, http.StatusOK, "usage.html", frame{Title: "Usage", Refresh: 30, Script: true, Visit: v, Body: body})
}

// Page is the path of its page.
func (u usageRow) Page() string {
	kind := "sessions/"
	if spawner.ID(u.ID).OfJob() {
		kind = "jobs/"
	}
	return u.Visit.Prefix + kind + url.PathEscape(u.ID)
}

// Title names it.
func (u usageRow) Title() string {
	switch {
	case u.Name != "":
		return u.Name
	case spawner.ID(u.ID).OfJob():
		return u.ID
	default:
		return "default server"
	}
}

// gauge is a number of at most so much.
type gauge struct {
	Share float64 // 0 to 1; negative: it was not measured
	Words string
}

func gaugeOf(v *float64, most float64, words func(v float64) string) gauge {
	switch {
	case v == nil:
		return gauge{-1, "not measured"}
	case most <= 0:
		return gauge{-1, words(*v)}
	default:
		return gauge{min(*v/most, 1), words(*v) + " of " + words(most)}
	}
}

func memoryGauge(n *int64, most int64) gauge {
	if n == nil {
		return gauge{-1, "not measured"}
	}
	v := float64(*n)
	return gaugeOf(&v, float64(most), func(v float64) string { return units.MemoryWords(int64(v)) })
}

// CPU says how many processors it uses.
func (u usageRow) CPU() gauge { return gaugeOf(u.Use.CPU, u.CPUs, inTenths) }

// InMemory says how much memory it uses.
func (u usageRow) InMemory() gauge { return memoryGauge(u.Use.Memory, u.Memory) }

func inTenths(v float64) string { return number(math.Round(v*10) / 10) }

// GPU says how busy its slice is; empty: it holds none.
func (u usageRow) GPU() string {
	switch {
	case u.Slice == "":
		return ""
	case u.Use.GPU == nil && u.Use.GPUMemory == nil:
		return u.Slice + ": not measured"
	}
	words := u.Slice + ":"
	if u.Use.GPU != nil {
		words += fmt.Sprintf(" busy %.0f %%", *u.Use.GPU)
	}
	if u.Use.GPUMemory != nil {
		words += " " + units.MemoryWords(*u.Use.GPUMemory) + " of " + units.MemoryWords(u.GPUMemory)
	}
	return words
}

// For says for how long it has run.
func (u usageRow) For() string { return span(time.Since(u.Up)) }
