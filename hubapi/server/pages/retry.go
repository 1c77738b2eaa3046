package pages

import (
	"cmp"
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/units"
	"slipway/internal/webui"
	"slipway/spawner"
)

// limitsOf returns what a job has.
func limitsOf(w spawner.Workload) webui.Limits {
	return webui.Limits{Memory: w.Spec.Resources.Memory, Time: w.Spec.TimeLimit}
}

// wouldDo returns what a job should have that is tried again: twice of what was not enough, and no more than it may
// have.
func wouldDo(w spawner.Workload, most webui.Limits) webui.Limits {
	had := limitsOf(w)
	if w.Outcome == nil {
		return had
	}
	switch w.Outcome.Cause {
	case spawner.CauseMemory:
		had.Memory = max(had.Memory, min(2*had.Memory, most.Memory))
	case spawner.CauseTime:
		had.Time = max(had.Time, min(2*had.Time, most.Time))
	}
	return had
}

// mostFor returns what a job may have.
func (p *Pages) mostFor(w spawner.Workload) webui.Limits {
	policy := p.cfg.Policy.On(w.Backend)
	return webui.Limits{
		Memory: max(policy.DefaultMemory, policy.MaxMemory), Time: max(policy.DefaultTime, policy.MaxTime),
	}
}

// askRetry asks with what memory and time a job is to be tried again.
func (p *Pages) askRetry(w http.ResponseWriter, r *http.Request, v visitor) error {
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	most := p.mostFor(found)
	ask := webui.Retry{
		Title: cmp.Or(found.Name, string(found.ID)), Path: hubs.PathOf(found),
		Had: limitsOf(found), Suggest: wouldDo(found, most), Most: most,
	}
	if o := found.Outcome; o != nil {
		ask.Why = o.Reason
		if o.Cause == spawner.CauseModule {
			ask.Why += ": " + o.Remedy // which no other memory or time is
		}
	}
	return webui.AskRetry(w, p.view(v), ask)
}

// askRetryScan asks the same for the points of a scan that have failed: what does for each of them is suggested.
func (p *Pages) askRetryScan(w http.ResponseWriter, r *http.Request, v visitor) error {
	points, err := p.cfg.API.Scans.Scan(r.WithContext(web.WithCaller(r.Context(), v.caller)))
	if err != nil {
		return err
	}
	first := points[0]
	ask := webui.Retry{
		Title: cmp.Or(first.Name, string(first.Scan)), Path: "scans/" + string(first.Scan), Had: limitsOf(first),
		Suggest: limitsOf(first), Most: p.mostFor(first),
	}
	for _, one := range points {
		if convert.State(&one) != hubapi.JobFailed {
			continue
		}
		ask.Points++
		suggest := wouldDo(one, ask.Most)
		ask.Suggest.Memory, ask.Suggest.Time = max(
			ask.Suggest.Memory, suggest.Memory,
		), max(ask.Suggest.Time, suggest.Time)
		if o := one.Outcome; ask.Why == "" && o != nil {
			ask.Why = "The first that failed: " + o.Reason
		}
	}
	return webui.AskRetry(w, p.view(v), ask)
}

// retryOf reads the form. What is as it was is left out: a job keeps what a later policy would not give.
func retryOf(r *http.Request, had webui.Limits) (req hubapi.RetryRequest) {
	if text := r.PostForm.Get("memory"); text != "" && text != units.FormatMemory(had.Memory) {
		req.Memory = text
	}
	if text := r.PostForm.Get("time"); text != "" && text != webui.TimeText(had.Time) {
		req.TimeLimit = text
	}
	return req
}

// retry tries a job again as the form says.
func (p *Pages) retry(r *http.Request, v visitor) (string, error) {
	found, err := p.named(r, v)
	if err != nil {
		return "", err
	}
	again, _, err := p.cfg.API.Jobs.Again(retryOf(r, limitsOf(found)))
	if err != nil {
		return "", err
	}
	return p.reorder(again)(r, v)
}

// retryPoints tries the points of a scan again that have failed.
func (p *Pages) retryPoints(r *http.Request, v visitor) (string, error) {
	points, err := p.cfg.API.Scans.Scan(r.WithContext(web.WithCaller(r.Context(), v.caller)))
	if err != nil {
		return "", err
	}
	again, meant, err := p.cfg.API.Jobs.Again(retryOf(r, limitsOf(points[0])))
	if err != nil {
		return "", err
	}
	return p.reorderScan(again, meant)(r, v)
}
