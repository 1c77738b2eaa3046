// Package placementsim replays a trace of requests for GPUs over a described fleet, once for each placement policy, and
// measures how much of what was asked for could be had. It is for planning: which models, modes and layouts would serve
// these users?
//
// It promises to be pure and to repeat itself: no clock, no driver, and the same trace gives the same report. It places
// with the engine that the service places with.
package placementsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// Models knows GPUs by the names that a trace gives them.
type Models struct {
	Find  func(name string) (gpu.Device, bool)
	Names []string
}

// Report is what a replay has measured.
type Report struct {
	GPUs     int      `json:"gpus"`
	Requests int      `json:"requests"`
	Load     float64  `json:"load"`            // GPUs asked for at one time, in the mean, as a part of those there are
	Never    []Never  `json:"never,omitempty"` // what the fleet cannot give; it counts as refused, and has no part in slice-weighted acceptance
	Policies []Result `json:"policies"`
}

// Never is a request that the fleet cannot give to anybody.
type Never struct {
	GPU      string `json:"gpu"`
	Requests int    `json:"requests"`
	Why      string `json:"why"`
}

// Result is what one policy has made of the trace. Parts are from 0 to 1.
type Result struct {
	Policy        placement.Policy `json:"policy"`
	Accepted      int              `json:"accepted"`
	Acceptance    float64          `json:"acceptance"`     // of requests
	Weighted      float64          `json:"slice_weighted"` // of what they asked for: a request counts with its part of a GPU
	Utilisation   float64          `json:"utilisation"`    // of all GPUs, from the first request until the last has ended
	Fragmentation *float64         `json:"fragmentation"`  // of the free slots of GPUs that are cut as needed: of no use to these requests. null: there are none
	Made          int              `json:"made"`           // MIG instances made anew
	Reused        int              `json:"reused"`         // MIG instances that were there already
	Wait          Wait             `json:"wait"`           // of those who were placed
}

// Wait is how long requests waited, in seconds.
type Wait struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
}

// Run replays t once for each policy.
func (t Trace) Run(models Models, policies []placement.Policy) (Report, error) {
	nodes, err := t.nodes(models)
	if err != nil {
		return Report{}, err
	}
	requests, err := t.requests(nodes)
	if err != nil {
		return Report{}, err
	}
	report := Report{
		GPUs: len(nodes), Requests: len(requests), Load: load(requests, len(nodes)), Never: never(nodes, requests),
	}
	for _, policy := range policies {
		r := newReplay(nodes, requests, time.Duration(t.Patience), placement.New(policy, t.Headroom))
		r.run()
		report.Policies = append(report.Policies, r.result(policy))
	}
	return report, nil
}

// nodes makes the empty GPUs of the fleet.
func (t Trace) nodes(models Models) ([]placement.Node, error) {
	var nodes []placement.Node
	tables := map[string]*placement.Table{}
	for i, g := range t.Fleet {
		field := fmt.Sprintf("fleet[%d].", i)
		device, ok := models.Find(g.Model)
		if !ok {
			return nil, errs.Bad(field+"model", g.Model, "one of "+strings.Join(models.Names, ", "))
		}
		node, err := g.node(field, device, tables)
		if err != nil {
			return nil, err
		}
		for range g.number() {
			node.UUID = fmt.Sprintf("GPU-%04d", len(nodes))
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// node makes one GPU of a group.
func (g Group) node(field string, d gpu.Device, tables map[string]*placement.Table) (placement.Node, error) {
	mode := gpu.Mode(g.Mode)
	n := placement.Node{
		Model: d.Name, Mode: mode, Tier: mode.Promise(), Memory: d.Memory, SMs: d.SMs, AtOnce: g.atOnce(),
		EqualShares: g.EqualShares,
	}
	if mode != gpu.MIG {
		return n, nil
	}
	if d.Slots == 0 {
		return n, errs.Bad(field+"mode", g.Mode, "whole, mps or shared, for "+d.Name+" cannot be cut")
	}
	if tables[d.Name] == nil {
		table, err := placement.NewTable(d.Slots, d.Profiles)
		if err != nil {
			return n, fmt.Errorf("%s: %w", d.Name, err)
		}
		tables[d.Name] = table
	}
	n.Table = tables[d.Name]
	return n, g.layOut(field, &n)
}

// layOut makes the instances of a static layout.
func (g Group) layOut(field string, n *placement.Node) error {
	if len(g.Layout) == 0 {
		return nil
	}
	placements, why := n.Table.LayOut(g.Layout)
	if why != "" {
		return errs.Bad(field+"layout", strings.Join(g.Layout, " "), why)
	}
	n.Static = true
	for i, at := range placements {
		n.Ready = append(n.Ready, placement.Ready{Profile: n.Table.Name(g.Layout[i]), Placement: at})
	}
	return nil
}

// never gathers the requests that the fleet cannot give.
func never(nodes []placement.Node, requests []request) []Never {
	var all []Never
	for _, r := range requests {
		if r.share > 0 {
			continue
		}
		name := r.gpu.String()
		if i := slices.IndexFunc(all, func(n Never) bool { return n.GPU == name }); i >= 0 {
			all[i].Requests++
			continue
		}
		all = append(all, Never{GPU: name, Requests: 1, Why: placement.Never(nodes, r.gpu)})
	}
	return all
}

// load says how much of the fleet is asked for from the first request to the last.
func load(requests []request, gpus int) float64 {
	sum := 0.0
	for _, r := range requests {
		sum += r.share * r.holds.Seconds()
	}
	over := requests[len(requests)-1].at - requests[0].at
	if over <= 0 {
		return 0
	}
	return sum / over.Seconds() / float64(gpus)
}
