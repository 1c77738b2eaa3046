package pages

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
	"slipway/spawner"
)

// checkDataPage is what the button asks for.
func (p *Pages) checkDataPage(r *http.Request, v visitor) (string, error) {
	found, err := p.named(r, v)
	if err != nil {
		return "", err
	}
	if err := p.cfg.API.Data.LookAgain(r.Context(), found); err != nil {
		return "", err
	}
	audit.Note(r.Context(), "a session's data is to be looked at again", "session", found.ID)
	return backTo(r, found) + "#data", nil
}

// accessLine is a line in which Jupyter tells of a request that it has answered well.
var accessLine = regexp.MustCompile(`^\[[DI] [^\]]*\] [123]\d\d (GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) `)

// withoutAccessLog leaves out what a server of Jupyter tells of each request: what matters would be lost among that.
func withoutAccessLog(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !accessLine.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

const (
	readTail   = 400              // lines that are read for them, as most are left out
	pageTail   = 40               // lines of output
	tailTime   = 2 * time.Second  // for them: a page does not wait for a mute agent
	streamTime = 10 * time.Minute // then the browser asks again, and the Hub is asked about the visitor again
)

func (p *Pages) item(v visitor, w spawner.Workload, lent map[spawner.ID]bool) webui.Item {
	detail := p.cfg.Status.Detail(w)
	if convert.KeepsBack(v.caller, w) {
		detail = convert.YouHold
	}
	item := webui.Item{
		Workload: w, Queue: p.cfg.Status.Queue(w), Detail: detail, PlannedStop: p.cfg.Status.PlannedStop(w),
		Alerts: p.cfg.Status.Alerts(w), Use: p.cfg.Convert.UseOf(w), Lent: lent[w.ID],
	}
	item.Mine, item.Expires = convert.Owns(v.caller, w), p.cfg.Status.Expires(w)
	if w.Kind.Batch() {
		item.Progress = p.cfg.Convert.Progress(w.ID)
	}
	if convert.Owns(v.caller, w) && p.cfg.KnownQuota != nil {
		item.Quotas = p.cfg.KnownQuota(w)
	}
	if convert.Owns(v.caller, w) {
		item.SSH = p.cfg.Convert.SSHLine(w)
	}
	return item
}

// overview shows the visitor's sessions, kernels, scans and jobs; an administrator's, with all=1, those of the whole
// Hub. The query chooses among jobs and scans as the API's does, and which page of them.
func (p *Pages) overview(w http.ResponseWriter, r *http.Request, v visitor) error {
	q := r.URL.Query()
	all := v.caller.Admin && q.Get("all") == "1"
	filter, err := api.FilterOf(r)
	if err != nil {
		return err
	}
	page, err := web.WholeNumber(r, "page", 1, math.MaxInt32)
	if err != nil {
		return err
	}
	var list []spawner.Workload
	sums := convert.Tallies{}
	err = p.cfg.Workloads.Each(r.Context(), v.caller, "", func(w *spawner.Workload) {
		switch {
		case !all && (w.Owner != v.caller.User || w.Standby != ""): // of a standby its owner has not asked for
		case w.Scan != "": // its scan has a row
			sums.Add(w)
		default:
			list = append(list, *w)
		}
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b spawner.Workload) int {
		return cmp.Or(
			first(b.Phase.Active())-first(a.Phase.Active()), b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID),
		)
	})
	order, known := jobOrders[q.Get("sort")]
	if !known {
		return errs.Bad("sort", q.Get("sort"), "newest, oldest, name, state or longest")
	}
	chosenBy := hubapi.JobFilter{State: q.Get("state"), Name: q.Get("name"), Since: q.Get("since")}
	view, lent, jobs := webui.OverviewView{All: all, Filter: chosenBy, Sort: q.Get("sort")}, p.cfg.API.GPUs.Lent(), []spawner.Workload{}
	for _, found := range list {
		switch {
		case found.Kind.Ephemeral():
			view.Kernels = append(view.Kernels, p.item(v, found, lent))
		case found.Kind.Session():
			view.Sessions = append(view.Sessions, p.item(v, found, lent))
		case filter.Has(&found):
			jobs = append(jobs, found)
		}
	}
	slices.SortStableFunc(jobs, order)
	view.Scans = p.cfg.Convert.Scans(sums)
	slices.SortStableFunc(view.Scans, func(a, b hubapi.Scan) int {
		return cmp.Or(first(!b.Ended())-first(!a.Ended()), b.Created.Compare(a.Created))
	})
	view.Scans = slices.DeleteFunc(view.Scans, func(s hubapi.Scan) bool { return !filter.HasScan(s) })
	view.Page, view.Pages = webui.PageOf(int(page), len(jobs), len(view.Scans))
	view.Scans = webui.OnPage(view.Scans, view.Page)
	for _, job := range webui.OnPage(jobs, view.Page) {
		view.Jobs = append(view.Jobs, p.item(v, job, lent))
	}
	return webui.Overview(w, p.view(v), p.cfg.Catalogue, view)
}

// jobOrders are how jobs are sorted, by webui.JobOrders. Those that are equal stay as they are: what runs first, and then
// the newest.
var jobOrders = map[string]func(a, b spawner.Workload) int{
	"":        func(a, b spawner.Workload) int { return 0 },
	"newest":  func(a, b spawner.Workload) int { return b.Created.Compare(a.Created) },
	"oldest":  func(a, b spawner.Workload) int { return a.Created.Compare(b.Created) },
	"name":    func(a, b spawner.Workload) int { return cmp.Compare(a.Name, b.Name) },
	"longest": func(a, b spawner.Workload) int { return cmp.Compare(webui.Ran(b), webui.Ran(a)) },
	"state": func(a, b spawner.Workload) int {
		return slices.Index(hubapi.Order(), convert.State(&a)) - slices.Index(hubapi.Order(), convert.State(&b))
	},
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// named returns the workload that the page's path names.
func (p *Pages) named(r *http.Request, v visitor) (spawner.Workload, error) {
	found, err := p.cfg.Workloads.Get(r.Context(), v.caller, spawner.ID(chi.URLParam(r, "id")))
	if err == nil && !strings.HasPrefix(r.URL.Path, v.hub.PagesPrefix+hubs.PathOf(found)) {
		err = errs.New(errs.NotFound, "there is no such page")
	}
	return found, err
}

func (p *Pages) single(w http.ResponseWriter, r *http.Request, v visitor) error {
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	steps, err := p.stepsSoFar(r.Context(), v.caller, found.ID)
	if err != nil {
		return err
	}
	details := webui.Details{
		Item: p.item(v, found, p.cfg.API.GPUs.Lent()), Steps: steps, Tail: p.output(
			r.Context(), v.caller, found,
		), Parameters: convert.Parameters(found),
	}
	p.left(r, v, &details.Item)
	if found.Kind.Batch() {
		// what cannot be read is not shown
		details.CodeName, details.Code, _ = p.cfg.Workloads.Code(r.Context(), v.caller, found.ID)
	}
	details.Charts = chartsOf(p.cfg.Usage.Series(found))
	if report, err := p.cfg.API.Data.ReportOf(r.Context(), found); err == nil {
		details.Data = &report
	}
	return webui.Single(w, p.view(v), p.cfg.Catalogue, details)
}

func (p *Pages) help(w http.ResponseWriter, _ *http.Request, v visitor) error {
	return webui.HelpPage(w, p.view(v))
}

// stepsSoFar returns the steps of the current launch without waiting for more: what there is comes before the context
// is looked at.
func (p *Pages) stepsSoFar(ctx context.Context, c spawner.Caller, id spawner.ID) ([]spawner.Event, error) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var all []spawner.Event
	// also what has been told since it came up, behind which the others stop reading
	for after := int64(0); ; after = all[len(all)-1].Seq {
		steps, err := p.cfg.Workloads.Events(ended, c, id, "", after)
		if err != nil {
			return nil, err
		}
		more := slices.Collect(steps)
		if len(more) == 0 {
			return all, nil
		}
		all = append(all, more...)
	}
}

// output returns the last lines of what a workload has written; empty when they cannot be had quickly.
func (p *Pages) output(ctx context.Context, c spawner.Caller, w spawner.Workload) string {
	if w.Outcome != nil && w.Outcome.Tail != "" && !w.Phase.Active() {
		return lastLines(withoutAccessLog(w.Outcome.Tail), pageTail)
	}
	ctx, cancel := context.WithTimeout(ctx, tailTime)
	defer cancel()
	lines := pageTail
	if w.Kind.HubServer() {
		lines = readTail
	}
	text, err := p.cfg.Workloads.Tail(ctx, c, w.ID, lines)
	if err != nil {
		return ""
	}
	return lastLines(withoutAccessLog(text), pageTail)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (p *Pages) askDiscard(w http.ResponseWriter, r *http.Request, v visitor) error {
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	return webui.Discard(w, p.view(v), p.cfg.Catalogue, p.item(v, found, p.cfg.API.GPUs.Lent()))
}

// pageEvents streams the steps of the current launch. Its address holds a word that only the page has, as browsers send
// no headers of the page's choice with such a request.
func (p *Pages) pageEvents(w http.ResponseWriter, r *http.Request) {
	if err := p.streamTo(w, r); err != nil {
		p.problem(w, r, err)
	}
}

func (p *Pages) streamTo(w http.ResponseWriter, r *http.Request) error {
	v, err := p.visitor(r)
	if err != nil {
		return err
	}
	if !same(r.URL.Query().Get("key"), v.stream) {
		return errs.New(errs.Forbidden, "the stream is not of a page that you have open")
	}
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	after, err := web.WholeNumber(r, "after", 0, 1<<62)
	if err != nil {
		return err
	}
	ctx, cancel := p.cfg.Web.Stream(r.Context())
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, streamTime)
	defer cancel()
	return p.cfg.Feeds.Steps(ctx, w, v.caller, found.ID, "", max(after, feeds.LastEvent(r)))
}

// stop ends a session, its start, or a job. It does not wait for the end: the page shows how it goes on.
func (p *Pages) stop(r *http.Request, v visitor) (string, error) {
	found, err := p.named(r, v)
	if err != nil {
		return "", err
	}
	_, err = p.cfg.Actions.Stop(r.Context(), v.caller, found.ID)
	if found.Kind.Ephemeral() && r.PostForm.Get("back") == "" { // its page goes with it
		return "", err
	}
	return backTo(r, found), err
}

func (p *Pages) keep(r *http.Request, v visitor) (string, error) {
	found, err := p.named(r, v)
	if err != nil {
		return "", err
	}
	d, err := api.KeepTime(r.PostForm.Get("for"))
	if err != nil {
		return "", err
	}
	_, err = p.cfg.Actions.Keep(r.Context(), v.caller, found.ID, d)
	return backTo(r, found), err
}

func (p *Pages) discard(r *http.Request, v visitor) (string, error) {
	found, err := p.named(r, v)
	if err != nil {
		return "", err
	}
	return "", p.cfg.Actions.Remove(r.Context(), v.caller, found.ID)
}

// backTo returns the page where the button was.
func backTo(r *http.Request, w spawner.Workload) string {
	switch r.PostForm.Get("back") {
	case "list":
		return ""
	case "all":
		return "?all=1"
	default:
		return hubs.PathOf(w)
	}
}
