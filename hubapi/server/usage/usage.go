// Package usage serves what sessions, jobs and the site have used over time: as JSON, and as charts that are drawn here.
// Pages show the same charts.
//
// Users read what is theirs, and administrators what is of their Hub: of a session or job the engine says so, of the
// site this package.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/chart"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Meter is what has measured.
type Meter interface {
	// Of returns what a workload has used, and Now what it uses.
	Of(id spawner.ID) []hubapi.UsagePoint
	Now(id spawner.ID) hubapi.UsagePoint
	Queue() []hubapi.QueuePoint
	// Disk returns what the users of a hub have kept on the disk, and GPUHours what its groups have had of GPUs.
	Disk(hub string) map[spawner.User][]hubapi.DiskPoint
	GPUHours(hub string, since time.Time) []hubapi.GroupHours
}

// Workloads are what has used something. The engine has the contract.
type Workloads interface {
	Each(ctx context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error
}

// Config is what a Room needs.
type Config struct {
	Web       *web.Core
	API       *api.API
	Workloads Workloads
	Meter     Meter // nil: nothing is measured
}

// Room serves what was used.
type Room struct{ cfg Config }

// New makes a Room.
func New(cfg Config) *Room { return &Room{cfg} }

// Routes are its part of the native API.
func (u *Room) Routes(r chi.Router) {
	r.Method("GET", "/usage", web.Serve(u.cfg.Web, http.StatusOK, u.list))
	r.Method("GET", "/usage/site", u.cfg.Web.Plain(u.site))
	r.Method("GET", "/sessions/{id}/usage", u.cfg.Web.Plain(u.workload(false)))
	r.Method("GET", "/jobs/{id}/usage", u.cfg.Web.Plain(u.workload(true)))
	r.Method("GET", "/scans/{id}/progress", u.cfg.Web.Plain(u.scan))
}

// list tells what runs of the caller's, or of everybody's.
func (u *Room) list(r *http.Request, _ web.None) (hubapi.UsageList, error) {
	c := web.CallerOf(r.Context())
	all, err := yes(r, "all")
	if err == nil && all && !api.Administers(c) {
		err = forAdministrators("what everybody uses")
	}
	if err != nil {
		return hubapi.UsageList{}, err
	}
	return u.Running(r.Context(), c, all)
}

func yes(r *http.Request, name string) (bool, error) {
	switch v := r.URL.Query().Get(name); v {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, errs.Bad(name, v, "true or false")
	}
}

func forAdministrators(what string) error {
	return errs.New(errs.Forbidden, "%s is for administrators", what).With("leave it out to see what is yours")
}

// Running returns what runs, and what it uses: of the caller's, or of all that the caller may see.
func (u *Room) Running(ctx context.Context, c spawner.Caller, all bool) (hubapi.UsageList, error) {
	out := hubapi.UsageList{Workloads: []hubapi.UsageNow{}}
	var ids []spawner.ID
	err := u.cfg.Workloads.Each(ctx, c, "", func(w *spawner.Workload) {
		switch {
		case !all && !convert.Owns(c, *w) || w.Standby != "":
		case w.Phase == spawner.Running:
			out.Workloads, ids = append(out.Workloads, runningOf(w)), append(ids, w.ID)
		case w.Phase.Active() && w.Phase != spawner.Stopping:
			out.Waiting++
		}
	})
	for i, id := range ids {
		out.Workloads[i].Use = u.now(id)
	}
	slices.SortFunc(out.Workloads, func(a, b hubapi.UsageNow) int {
		return cmp.Or(cmp.Compare(value(b.Use.CPU), value(a.Use.CPU)), a.Up.Compare(b.Up), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}

func (u *Room) now(id spawner.ID) hubapi.UsagePoint {
	if u.cfg.Meter == nil {
		return hubapi.UsagePoint{At: time.Now().UTC()}
	}
	return u.cfg.Meter.Now(id)
}

// value returns a number, below all others if it was not measured.
func value[T int64 | float64](v *T) T {
	if v == nil {
		return -1
	}
	return *v
}

func runningOf(w *spawner.Workload) hubapi.UsageNow {
	out := hubapi.UsageNow{
		Meta: hubapi.Meta{
			ID: string(w.ID), User: string(w.Owner), Name: w.Name, Backend: w.Backend, Created: w.Created.UTC(),
		},
		Kind: string(w.Kind), Up: w.Up.UTC(), CPUs: w.Spec.Resources.CPUs, Memory: w.Spec.Resources.Memory,
	}
	if w.Slice != nil {
		out.Slice, out.GPUMemory = w.Slice.Name, w.Slice.Memory
	}
	return out
}

// workload serves what a session or job has used.
func (u *Room) workload(job bool) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		of, err := chartOf(r, hubapi.UsageCharts)
		if err != nil {
			return err
		}
		found, err := u.cfg.API.Jobs.Find(r, job)
		if err != nil {
			return err
		}
		series := u.Series(found)
		if of == "" {
			web.WriteJSON(w, http.StatusOK, series)
			return nil
		}
		return writeSVG(w, Chart(series, of))
	}
}

// Series returns what a workload has used.
func (u *Room) Series(w spawner.Workload) hubapi.UsageSeries {
	out := hubapi.UsageSeries{
		CPUs: w.Spec.Resources.CPUs, Memory: w.Spec.Resources.Memory, Points: []hubapi.UsagePoint{},
		Up: convert.Moment(w.Up),
	}
	if w.Slice != nil {
		out.GPUMemory = w.Slice.Memory
	}
	if w.Outcome != nil && !w.Phase.Active() {
		out.Ended = convert.Moment(w.Outcome.At)
	}
	if u.cfg.Meter != nil {
		out.Points = append(out.Points, u.cfg.Meter.Of(w.ID)...)
	}
	return out
}

// chartOf returns which chart is asked for in place of JSON; empty: none is.
func chartOf(r *http.Request, charts []string) (string, error) {
	of := r.URL.Query().Get("chart")
	if of != "" && !slices.Contains(charts, of) {
		return "", errs.Bad("chart", of, fmt.Sprintf("one of %v", charts))
	}
	return of, nil
}

func writeSVG(w http.ResponseWriter, svg string) error {
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, err := fmt.Fprint(w, chart.Alone(svg))
	return err
}

// site serves how the site was used.
func (u *Room) site(w http.ResponseWriter, r *http.Request) error {
	of, err := chartOf(r, hubapi.SiteCharts)
	if err != nil {
		return err
	}
	site, err := u.Site(web.CallerOf(r.Context()))
	if err != nil {
		return err
	}
	if of == "" {
		web.WriteJSON(w, http.StatusOK, site)
		return nil
	}
	return writeSVG(w, SiteChart(site, of))
}

// Site returns how the site was used, as far as that is of the caller's hub. The queue is one for all.
func (u *Room) Site(c spawner.Caller) (hubapi.SiteUsage, error) {
	out := hubapi.SiteUsage{GPUHours: []hubapi.GroupHours{}, Queue: []hubapi.QueuePoint{}, Disk: []hubapi.UserDisk{}}
	if !api.Administers(c) {
		return out, forAdministrators("how the site is used")
	}
	if u.cfg.Meter == nil {
		return out, nil
	}
	out.GPUs = len(u.cfg.API.GPUs.Inventory().GPUs)
	out.GPUHours = append(out.GPUHours, u.cfg.Meter.GPUHours(c.Hub, time.Now().Add(-hubapi.UsageKept))...)
	out.Queue = append(out.Queue, u.cfg.Meter.Queue()...)
	for user, points := range u.cfg.Meter.Disk(c.Hub) {
		out.Disk = append(out.Disk, hubapi.UserDisk{User: string(user), Points: points})
	}
	last := func(d hubapi.UserDisk) int64 { return d.Points[len(d.Points)-1].Bytes }
	slices.SortFunc(out.Disk, func(a, b hubapi.UserDisk) int {
		return cmp.Or(cmp.Compare(last(b), last(a)), cmp.Compare(a.User, b.User))
	})
	return out, nil
}

// scan serves how a scan has gone on.
func (u *Room) scan(w http.ResponseWriter, r *http.Request) error {
	of, err := chartOf(r, []string{"progress"})
	if err != nil {
		return err
	}
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	var ends Ends
	if err := u.cfg.API.Jobs.EachPoint(r, id, ends.Add); err != nil {
		return err
	}
	if of == "" {
		web.WriteJSON(w, http.StatusOK, ends.Progress())
		return nil
	}
	return writeSVG(w, ends.Chart())
}
