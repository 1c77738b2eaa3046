package webui

import (
	"net/http"
	"strings"

	"slipway/hubapi"
	"slipway/internal/units"
)

// PoolView is what the page of a pool's GPUs is made of.
type PoolView struct {
	hubapi.PoolGPUs        // as they were found last
	Known           bool   // they were found at all
	Problem         string // why they could not be asked for now; empty: they were
}

type poolBody struct {
	PoolView
	Kinds []poolKind
}

// PoolPage answers with the GPUs of the site's HTCondor pool.
func PoolPage(w http.ResponseWriter, v Visit, p PoolView) error {
	b := poolBody{PoolView: p}
	for _, k := range p.PoolGPUs.Kinds {
		b.Kinds = append(b.Kinds, poolKind{k})
	}
	return write(
		w, http.StatusOK, "pool.html", frame{Title: "GPUs of the pool", Refresh: 30, Script: true, Visit: v, Body: b},
	)
}

// poolKind is GPUs of one kind at one site.
type poolKind struct{ hubapi.PoolGPU }

// Title names the model, and how it is shared.
func (k poolKind) Title() string {
	words := map[string]string{"mig": ", MIG instances", "part": ", shared"}[k.Sharing]
	if k.Model == "" {
		return "a GPU of unknown model" + words
	}
	return k.Model + words
}

// Where names the site.
func (k poolKind) Where() string { return k.Site }

// Size is the memory; empty where that is not told.
func (k poolKind) Size() string {
	if k.Memory <= 0 {
		return ""
	}
	return units.MemoryWords(k.Memory)
}

// Span returns the oldest and the newest runtime.
func (k poolKind) Span() string {
	switch n := len(k.Runtimes); n {
	case 0:
		return ""
	case 1:
		return k.Runtimes[0]
	default:
		return k.Runtimes[0] + " to " + k.Runtimes[n-1]
	}
}

// hostsNamed is how many hosts are named.
const hostsNamed = 3

// Named names hosts.
func (k poolKind) Named() string {
	if len(k.Hosts) > hostsNamed {
		return strings.Join(k.Hosts[:hostsNamed], ", ") + ", ..."
	}
	return strings.Join(k.Hosts, ", ")
}
