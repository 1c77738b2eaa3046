package pages

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/usage"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
	"slipway/spawner"
)

// jobPages are the pages of scans, and what is done to jobs and scans beside stopping and discarding.
func (p *Pages) jobPages(r chi.Router) {
	r.Post("/jobs/{id}/hold", p.act(p.reorder(p.cfg.Actions.Hold)))
	r.Post("/jobs/{id}/release", p.act(p.reorder(p.cfg.Actions.Release)))
	r.Post("/jobs/{id}/requeue", p.act(p.reorder(p.cfg.Actions.Requeue)))
	r.Get("/jobs-chosen", p.show(p.askChosen))
	r.Post("/jobs-chosen", p.act(p.actOnChosen))
	r.Get("/jobs/{id}/retry", p.show(p.askRetry))
	r.Post("/jobs/{id}/retry", p.act(p.retry))
	r.Get("/scans/{id}/retry", p.show(p.askRetryScan))
	r.Post("/scans/{id}/retry", p.act(p.retryPoints))
	p.filePages(r)
	r.Get("/scans/{id}", p.show(p.scanPage))
	r.Get("/scans/{id}/why", p.show(p.whyOfScan))
	r.Get("/scans/{id}/{verb}", p.show(p.askScan))
	r.Post("/scans/{id}/cancel", p.act(p.reorderScan(p.cfg.Actions.Stop, api.Active)))
	r.Post("/scans/{id}/hold", p.act(p.reorderScan(p.cfg.Actions.Hold, api.NotHeld)))
	r.Post("/scans/{id}/release", p.act(p.reorderScan(p.cfg.API.Scans.ReleaseHeld, api.Active)))
	r.Post("/scans/{id}/requeue", p.act(p.reorderScan(p.cfg.Actions.Requeue, api.Running)))
	r.Post("/scans/{id}/discard", p.act(p.reorderScan(p.cfg.API.Scans.RemoveEnded, hasPassed)))
}

func hasPassed(w spawner.Workload) bool { return !w.Phase.Active() }

// reorder makes what is done to one job.
func (p *Pages) reorder(do api.Act) func(*http.Request, visitor) (string, error) {
	return func(r *http.Request, v visitor) (string, error) {
		found, err := p.named(r, v)
		if err != nil {
			return "", err
		}
		_, err = do(r.Context(), v.caller, found.ID)
		return backTo(r, found), err
	}
}

// reorderScan makes what is done to the points of a scan. What could not be done to some of them is told.
func (p *Pages) reorderScan(
	do api.Act, meant func(spawner.Workload) bool,
) func(*http.Request, visitor) (string, error) {
	change := p.cfg.API.Scans.ChangeScan(do, meant)
	return func(r *http.Request, v visitor) (string, error) {
		done, err := change(r.WithContext(web.WithCaller(r.Context(), v.caller)), web.None{})
		switch {
		case err != nil:
			return "", err
		case done.Refused > 0:
			return "", errs.New(
				errs.Conflict, "it was done to %d points, and could not be done to %d: %s", done.Changed, done.Refused,
				done.Why,
			)
		case done.Scan.Points == 0:
			return "", nil
		}
		return "scans/" + done.Scan.ID, nil
	}
}

// leafSize is how many points a leaf of a scan's table has: on a phone three screens.
const leafSize = 25

// place is where a point stands in the table of its scan.
type place struct {
	id    spawner.ID
	point int
	state hubapi.State
}

// inTable puts what needs its owner's eyes first, and what is done last.
func inTable(a, b place) int {
	order := []hubapi.State{hubapi.JobFailed, hubapi.JobCanceled, hubapi.JobRunning, hubapi.JobPending, hubapi.JobDone}
	return cmp.Or(slices.Index(order, a.state)-slices.Index(order, b.state), a.point-b.point)
}

// scanPage shows a scan and some of its points: of one state, or of all.
func (p *Pages) scanPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	r = r.WithContext(web.WithCaller(r.Context(), v.caller))
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	view := webui.ScanView{State: r.URL.Query().Get("state")}
	if view.State != "" && !slices.Contains(hubapi.Order(), hubapi.State(view.State)) {
		return errs.Bad("state", view.State, "pending, running, done, failed or canceled")
	}
	leaf, err := web.WholeNumber(r, "leaf", 1, hubapi.PointLimit)
	if err != nil {
		return err
	}
	sum, places := convert.NewTally(), []place(nil)
	var ends usage.Ends
	err = p.cfg.API.Jobs.EachPoint(r, id, func(w *spawner.Workload) {
		sum.Add(w)
		ends.Add(w)
		if state := convert.State(w); view.State == "" || view.State == string(state) {
			places = append(places, place{w.ID, w.Point, state})
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(places, inTable)
	view.Scan, view.Progress = p.cfg.Convert.Scan(sum), picture(ends.Chart())
	if len(places) > 0 { // what cannot be read is not shown
		view.CodeName, view.Code, _ = p.cfg.Workloads.Code(r.Context(), v.caller, places[0].id)
	}
	view.Most, view.Leaves = len(places), max(1, (len(places)+leafSize-1)/leafSize)
	view.Leaf = min(max(1, int(leaf)), view.Leaves) // points may have left a state since the link was made
	view.From = (view.Leaf-1)*leafSize + 1
	lent := p.cfg.API.GPUs.Lent()
	for _, at := range places[view.From-1 : min(len(places), view.Leaf*leafSize)] {
		// it may have been removed meanwhile
		if w, err := p.cfg.Workloads.Get(r.Context(), v.caller, at.id); err == nil {
			point := webui.Point{Item: p.item(v, w, lent), Parameters: convert.Parameters(w)}
			p.left(r, v, &point.Item)
			view.Points = append(view.Points, point)
		}
	}
	return webui.ScanPage(w, p.view(v), p.cfg.Catalogue, view)
}

// askScan asks whether something is really to be done to a scan.
func (p *Pages) askScan(w http.ResponseWriter, r *http.Request, v visitor) error {
	scan, err := p.cfg.API.Scans.GetScan(r.WithContext(web.WithCaller(r.Context(), v.caller)), web.None{})
	if err != nil {
		return err
	}
	known, err := webui.AskScan(w, p.view(v), scan, chi.URLParam(r, "verb"))
	if err == nil && !known {
		err = errs.New(errs.NotFound, "there is no such page")
	}
	return err
}

// why explains what a session or job waits for.
func (p *Pages) why(w http.ResponseWriter, r *http.Request, v visitor) error {
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	path := hubs.PathOf(found)
	title := found.Name
	if title == "" {
		title = string(found.ID)
	}
	return p.explain(w, r, v, webui.Why{
		Title: title, Back: path, BackLabel: "Back to it",
	}, func(r *http.Request) (hubapi.Explanation, error) {
		return p.cfg.API.Jobs.Why(r, found)
	})
}

func (p *Pages) whyOfScan(w http.ResponseWriter, r *http.Request, v visitor) error {
	points, err := p.cfg.API.Scans.Scan(r.WithContext(web.WithCaller(r.Context(), v.caller)))
	if err != nil {
		return err
	}
	y := webui.Why{Title: points[0].Name, Back: "scans/" + points[0].Scan, BackLabel: "Back to the scan"}
	if y.Title == "" {
		y.Title = points[0].Scan
	}
	return p.explain(
		w, r, v, y, func(r *http.Request) (hubapi.Explanation, error) { return p.cfg.API.Scans.WhyScan(r, web.None{}) },
	)
}

// whyPatience is how long a page waits for a batch system's explanation.
const whyPatience = 15 * time.Second

func (p *Pages) explain(
	w http.ResponseWriter, r *http.Request, v visitor, y webui.Why, ask func(*http.Request) (hubapi.Explanation, error),
) error {
	ctx, cancel := context.WithTimeout(web.WithCaller(r.Context(), v.caller), whyPatience)
	defer cancel()
	var err error
	if y.Why, err = ask(r.WithContext(ctx)); err != nil {
		return inTime(err, "the batch system", whyPatience)
	}
	y.Here, y.Back = v.hub.PagesPrefix+y.Back+"/why", v.hub.PagesPrefix+y.Back
	return webui.WhyPage(w, p.view(v), y)
}

// pagesBack returns where somebody goes on whose request of a page failed: to the environment, scan or job that it was
// about, if that is there, or to all. Empty for other pages.
func pagesBack(rest string, there bool) (link, label string) {
	words := strings.Split(rest, "/")
	back := map[string]string{
		"environments": "Back to the environment", "scans": "Back to the scan", "jobs": "Back to the job",
	}[words[0]]
	switch {
	case words[0] == "login":
		return "login", "Type a code"
	case words[0] == "ssh":
		return "ssh", "Your keys"
	case words[0] == "credentials" || words[0] == "tokens":
		return "credentials", "Your credentials"
	case there && back != "" && len(words) > 1:
		return strings.Join(words[:2], "/"), back
	case words[0] == "environments":
		return words[0], "Environments"
	}
	return "", ""
}
