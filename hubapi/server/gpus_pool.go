package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
)

// Pool knows what GPUs an HTCondor pool has. What it says names no user and no workload: everybody may read it.
type Pool interface {
	// GPUs lists them, with what was found since a time; a zero time asks for no history.
	GPUs(ctx context.Context, since time.Time) (hubapi.PoolGPUs, error)
	// ClassAds returns the same as ads.
	ClassAds(ctx context.Context) (string, error)
}

// mostHistory is as far back as the pool's history is kept.
const mostHistory = 30 * 24 * time.Hour

// poolGPUs lists the GPUs of the pool: as JSON, or as ClassAds.
func (s *Server) poolGPUs(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Pool == nil {
		return noPool()
	}
	switch format := r.URL.Query().Get("format"); format {
	case "":
	case "classad":
		text, err := s.cfg.Pool.ClassAds(r.Context())
		if err != nil {
			return err
		}
		web.AsText(w)
		_, err = fmt.Fprint(w, text)
		return err
	default:
		return errs.Bad("format", format, "classad, or none for JSON")
	}
	since, err := historySince(r.URL.Query().Get("history"))
	if err != nil {
		return err
	}
	all, err := s.cfg.Pool.GPUs(r.Context(), since)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, all)
	return nil
}

// historySince reads from when on the history is asked for; zero: it is not.
func historySince(span string) (time.Time, error) {
	if span == "" {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(span)
	if err != nil || d <= 0 || d > mostHistory {
		return time.Time{}, errs.Bad("history", span, "a time such as 24h, at most 720h")
	}
	return time.Now().Add(-d), nil
}

func noPool() error {
	return errs.New(errs.Missing, "this service has no HTCondor pool").With("the administrator sets htcondor.enabled in the configuration")
}

// poolPatience is how long a page waits for a pool that does not answer.
const poolPatience = 10 * time.Second

// poolSight is what pages have last seen of the pool's GPUs.
type poolSight struct {
	mu   sync.Mutex // guards last
	last *hubapi.PoolGPUs
}

// look asks the pool; where it does not answer, it gives what was seen last, and why.
func (p *poolSight) look(ctx context.Context, pool Pool) (seen *hubapi.PoolGPUs, err error) {
	ctx, cancel := context.WithTimeout(ctx, poolPatience)
	defer cancel()
	all, err := pool.GPUs(ctx, time.Time{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.last = &all
	}
	return p.last, err
}

// poolPage shows the GPUs of the pool, also while it does not answer: as they were seen last.
func (p *pages) poolPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	if p.cfg.Pool == nil {
		return noPool()
	}
	view := webui.PoolView{}
	seen, err := p.sight.look(r.Context(), p.cfg.Pool)
	if seen != nil {
		view.PoolGPUs, view.Known = *seen, true
	}
	if err != nil {
		body := p.Web.InWords(r, inTime(err, "the pool", poolPatience))
		view.Problem = web.Sentence(body.Error.Message) + behind(" ", web.Sentence(body.Error.Remedy))
	}
	return webui.PoolPage(w, p.view(v), view)
}

// inTime says of an error that came of waiting too long what was waited for.
func inTime(err error, whom string, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.New(errs.Unavailable, "%s has not answered within %s", whom, limit).With("ask again in a moment")
	}
	return err
}

func behind(joint, words string) string {
	if words == "" {
		return ""
	}
	return joint + words
}
