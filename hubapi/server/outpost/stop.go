package outpost

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway/hubapi/server/convert"
	"slipway/internal/errs"
	"slipway/spawner"
)

// logLines are how many lines of a session's output the Hub gets.
const logLines = 100

// pollAnswer is the answer to a poll: no status while the session is to go on, and the exit code afterwards.
type pollAnswer struct {
	Status *int     `json:"status"`
	Logs   []string `json:"logs,omitzero"`
}

// stopAnswer is the answer to a stop.
type stopAnswer struct {
	Logs []string `json:"logs,omitzero"`
}

// poll tells how a start stands. It never says by mistake that there is none: the Hub would take the server for dead.
func (o *Outpost) poll(_ http.ResponseWriter, r *http.Request, c spawner.Caller, start startPath) (int, any, error) {
	starting := o.claimed(c, start, o.claims.starting) // asked first: when it ends afterwards, the engine knows
	w, err := o.launched(r.Context(), c, start)
	if errs.Is(err, errs.NotFound) && starting {
		return http.StatusOK, pollAnswer{}, nil
	}
	if err != nil {
		return 0, nil, err
	}
	// after a DELETE there is nothing left to ask for
	if !w.Phase.Active() && o.claims.wasStopped(claim{c.Hub, w.Name, start.id}) {
		return 0, nil, errs.New(errs.NotFound, "start %s was stopped", start.id)
	}
	answer := pollAnswer{Logs: o.logs(r, c, w)}
	if !w.Phase.Active() {
		code := exitCode(w.Outcome)
		answer.Status = &code
	}
	return http.StatusOK, answer, nil
}

// launched finds the session of a start; NotFound only if that is certain. A start of a server of another name is none.
func (o *Outpost) launched(ctx context.Context, c spawner.Caller, start startPath) (w spawner.Workload, err error) {
	if start.id != noStartID {
		w, err = o.cfg.Engine.Launched(ctx, c, start.id)
	} else if w, err = o.unnamedStart(ctx, c, start.raw); errs.Is(err, errs.NotFound) && start.raw != start.name {
		w, err = o.unnamedStart(ctx, c, start.name)
	}
	if err == nil && !start.names(w.Name) {
		w, err = spawner.Workload{}, errs.New(errs.NotFound, "start %s is of a server of another name", start.id)
	}
	if errs.Is(err, errs.NotFound) {
		if unready := o.cfg.Engine.Ready(); unready != nil {
			return w, unready
		}
	}
	return w, err
}

// claimed asks of the claim that a path may mean: its name may stand there as it is, or escaped.
func (o *Outpost) claimed(c spawner.Caller, start startPath, ask func(claim) bool) bool {
	return ask(claim{c.Hub, start.raw, start.id}) || ask(claim{c.Hub, start.name, start.id})
}

// exitCode returns a session's exit code. One that failed without any has 1.
func exitCode(o *spawner.Outcome) int {
	switch {
	case o == nil:
		return 0
	case o.Failed && o.ExitCode == 0:
		return 1
	default:
		return o.ExitCode
	}
}

// logs returns the last lines of a session's output when the request wants them. A session that cannot be asked has
// none.
func (o *Outpost) logs(r *http.Request, c spawner.Caller, w spawner.Workload) []string {
	if wanted, err := strconv.ParseBool(r.URL.Query().Get("collect_logs")); err != nil || !wanted {
		return nil
	}
	text, err := o.cfg.Engine.Tail(r.Context(), c, w.ID, logLines)
	if err != nil {
		o.log.Debug("the Hub gets no output", "id", w.ID, "error", err)
	}
	lines := []string{}
	for line := range strings.Lines(strings.ToValidUTF8(text, "?")) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

// stop stops a session, or the start that has not yet become one. It is certain once the wish is saved: the answer does
// not wait longer than the Hub's client does.
func (o *Outpost) stop(_ http.ResponseWriter, r *http.Request, c spawner.Caller, start startPath) (int, any, error) {
	ctx, cancel := o.web.Stream(r.Context())
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	overtaken := o.claimed(c, start, func(k claim) bool { return waitFor(ctx, o.claims.overtake(k)) })
	w, err := o.launched(ctx, c, start)
	if errs.Is(err, errs.NotFound) && overtaken {
		return accepted(r), stopAnswer{}, nil
	}
	if err != nil {
		return 0, nil, err
	}
	if err := o.endLaunch(ctx, c, w, !async(r)); err != nil {
		return 0, nil, err
	}
	o.claims.stop(claim{c.Hub, w.Name, start.id})
	return accepted(r), stopAnswer{o.logs(r, c, w)}, nil
}

// waitFor waits until a channel closes or ctx ends, and reports whether there was anything to wait for.
func waitFor(ctx context.Context, c <-chan struct{}) bool {
	if c == nil {
		return false
	}
	select {
	case <-c:
	case <-ctx.Done():
	}
	return true
}

// endLaunch stops a start, never a later one of the same session, and waits for its end if that is wanted.
func (o *Outpost) endLaunch(ctx context.Context, c spawner.Caller, w spawner.Workload, wait bool) error {
	if !w.Phase.Active() {
		return nil
	}
	_, err := o.cfg.Engine.StopLaunch(ctx, c, w.Launch)
	if err == nil && wait {
		_, err = o.cfg.Engine.Await(
			ctx, c, w.ID, func(now spawner.Workload) bool { return !now.Phase.Active() || now.Launch != w.Launch },
		)
	}
	if errs.Is(err, errs.NotFound) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// listed is a row of the list of starts.
type listed struct {
	Name         string     `json:"name"`
	StartID      string     `json:"start_id"`
	User         string     `json:"user"`
	StartDate    time.Time  `json:"start_date"`
	EndDate      *time.Time `json:"end_date"`
	Hub          string     `json:"jupyterhub"`
	UserID       *string    `json:"jupyterhub_userid"` // the Hub's number of the user, as a text; null: the start has not told it
	LastUpdate   time.Time  `json:"last_update"`
	StateStored  bool       `json:"state_stored"`
	StartPending bool       `json:"start_pending"`
	StopPending  bool       `json:"stop_pending"`
}

// list returns the hub's starts that have not ended.
func (o *Outpost) list(_ http.ResponseWriter, r *http.Request, c spawner.Caller, _ startPath) (int, any, error) {
	all, err := o.cfg.Engine.List(r.Context(), c)
	if err != nil {
		return 0, nil, err
	}
	list := []listed{}
	for _, w := range all {
		if !w.Kind.HubServer() || !w.Phase.Active() {
			continue
		}
		row := listed{
			Name: w.Name, StartID: w.Launch, User: string(w.Owner), StartDate: w.Started.UTC(), Hub: w.Hub,
			LastUpdate: w.Since.UTC(), StateStored: true,
			StartPending: convert.ComingUp(w.Phase),
			StopPending:  w.Phase == spawner.Stopping || w.Want != spawner.WantRunning,
		}
		if strings.HasPrefix(w.Launch, unnamed) {
			row.StartID = noStartID
		}
		if id := w.Spec.Env[userIDVariable]; id != "" {
			row.UserID = &id
		}
		if age := w.Spec.Life.MaxAge; age > 0 {
			row.EndDate = convert.Moment(w.Started.Add(age))
		}
		list = append(list, row)
	}
	return http.StatusOK, list, nil
}
