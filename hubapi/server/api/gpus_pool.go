package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
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
func (s *GPUHandlers) poolGPUs(w http.ResponseWriter, r *http.Request) error {
	if s.pool == nil {
		return NoPool()
	}
	switch format := r.URL.Query().Get("format"); format {
	case "":
	case "classad":
		text, err := s.pool.ClassAds(r.Context())
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
	all, err := s.pool.GPUs(r.Context(), since)
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

func NoPool() error {
	return errs.New(errs.Missing, "this service has no HTCondor pool").
		With("the administrator sets htcondor.enabled in the configuration")
}
