package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"slipway/hubapi/server/web"
)

// checkAge is how long an answer of the checks holds; checkTime bounds one of them.
const (
	checkAge  = 10 * time.Second
	checkTime = 5 * time.Second
)

// readiness remembers what is missing.
type readiness struct {
	engine interface{ Ready() error }
	checks []Check

	mu      sync.Mutex // guards the fields below, and makes askers wait for one check
	asked   time.Time
	missing []string
}

func newReadiness(e Engine, checks []Check) *readiness { return &readiness{engine: e, checks: checks} }

// lacks says what is missing, newly asked at most every checkAge.
func (r *readiness) lacks(ctx context.Context) []string {
	var missing []string
	if err := r.engine.Ready(); err != nil {
		missing = append(missing, "engine: "+err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked.IsZero() || time.Since(r.asked) > checkAge {
		r.missing = r.run(ctx)
		r.asked = time.Now()
	}
	return append(missing, r.missing...)
}

func (r *readiness) run(ctx context.Context) []string {
	// An asker who goes away must not leave his canceled checks to the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	var missing []string
	for _, c := range r.checks {
		if err := c.Check(ctx); err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", c.Name, err))
		}
	}
	return missing
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	web.AsText(w)
	_, _ = io.WriteString(w, "ok\n")
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	missing := s.ready.lacks(r.Context())
	web.AsText(w)
	if len(missing) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "not ready\n"+strings.Join(missing, "\n")+"\n")
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}
