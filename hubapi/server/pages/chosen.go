package pages

import (
	"net/http"
	"net/url"
	"slices"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
	"slipway/internal/webui"
	"slipway/spawner"
)

// chosenMost bounds how many jobs are chosen at once: a page has fewer.
const chosenMost = 200

// chosenJobs returns the jobs that a form names to which something can be done, and how many others it names.
func (p *Pages) chosenJobs(r *http.Request, v visitor, form url.Values) (meant []spawner.Workload, left int, err error) {
	verb, ids := form.Get("do"), form["job"]
	can, known := map[string]func(spawner.Workload) bool{
		"cancel": api.Active, "discard": hasPassed, "retry": func(w spawner.Workload) bool {
			return hasPassed(w) && w.Outcome != nil && w.Ending() != spawner.Done
		},
	}[verb]
	switch {
	case !known:
		return nil, 0, errs.Bad("do", verb, "cancel, retry or discard")
	case len(ids) == 0:
		return nil, 0, errs.New(errs.Invalid, "no job is chosen").With("go back, and tick the boxes of the jobs that you mean")
	case len(ids) > chosenMost:
		return nil, 0, errs.Bad("job", len(ids), "at most 200 jobs at once")
	}
	for _, id := range ids {
		// one that is gone meanwhile is left out
		if w, err := p.cfg.Workloads.Get(r.Context(), v.caller, spawner.ID(id)); err == nil && w.Kind.Batch() && can(w) {
			meant = append(meant, w)
		}
	}
	return meant, len(ids) - len(meant), nil
}

// askChosen asks whether something is really to be done to the jobs that were chosen.
func (p *Pages) askChosen(w http.ResponseWriter, r *http.Request, v visitor) error {
	q := r.URL.Query()
	meant, left, err := p.chosenJobs(r, v, q)
	if err != nil {
		return err
	}
	ask := webui.Chosen{Verb: q.Get("do"), Left: left, All: q.Get("all") == "1"}
	for _, job := range meant {
		ask.Jobs = append(ask.Jobs, webui.Item{Workload: job})
	}
	return webui.AskChosen(w, p.view(v), p.cfg.Catalogue, ask)
}

// actOnChosen does it. What cannot be done to one of them is told when it was tried with all.
func (p *Pages) actOnChosen(r *http.Request, v visitor) (string, error) {
	meant, _, err := p.chosenJobs(r, v, r.PostForm)
	if err != nil {
		return "", err
	}
	again, _, err := p.cfg.API.Jobs.Again(hubapi.RetryRequest{})
	if err != nil {
		return "", err
	}
	do := map[string]func(id spawner.ID) error{
		"cancel":  func(id spawner.ID) error { _, err := p.cfg.Actions.Stop(r.Context(), v.caller, id); return err },
		"retry":   func(id spawner.ID) error { _, err := again(r.Context(), v.caller, id); return err },
		"discard": func(id spawner.ID) error { return p.cfg.Actions.Remove(r.Context(), v.caller, id) },
	}[r.PostForm.Get("do")]
	var ids []spawner.ID
	failed, why := 0, error(nil)
	for _, job := range meant {
		ids = append(ids, job.ID)
		if err := do(job.ID); err != nil && !errs.Is(err, errs.NotFound) {
			failed, why = failed+1, err
		}
	}
	past := map[string]string{"cancel": "canceled", "retry": "tried again", "discard": "removed"}[r.PostForm.Get("do")]
	which := []any{"jobs", ids}
	if others := ownersBeside(v.caller.User, meant); len(others) > 0 {
		which = append(which, "on_behalf_of", others)
	}
	audit.Note(r.Context(), "jobs are "+past+" together", which...)
	if failed > 0 {
		return "", errs.New(
			errs.Conflict, "it was done to %d jobs, and could not be done to %d: %s", len(meant)-failed, failed, errs.Brief(why),
		)
	}
	if r.PostForm.Get("back") == "all" {
		return "?all=1", nil
	}
	return "", nil
}

// ownersBeside returns whose jobs they are, beside the caller's own.
func ownersBeside(caller spawner.User, jobs []spawner.Workload) (others []spawner.User) {
	for _, job := range jobs {
		if job.Owner != caller && !slices.Contains(others, job.Owner) {
			others = append(others, job.Owner)
		}
	}
	return others
}
