package api

import (
	"context"
	"net/http"
	"strconv"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Storage knows the site's storage elements, as callers reach them.
type Storage interface {
	List(ctx context.Context, c spawner.Caller) []hubapi.Storage
	URL(lfn string, write, direct bool) (hubapi.DataURL, error)
}

// DataHandlers serve where data is, and whether a session's user reaches it.
type DataHandlers struct {
	lookup
	storage Storage
	doctor  DataDoctor
}

func (s *DataHandlers) storages(r *http.Request, _ web.None) (hubapi.Storages, error) {
	out := hubapi.Storages{Storage: []hubapi.Storage{}}
	if s.storage != nil {
		out.Storage = append(out.Storage, s.storage.List(r.Context(), web.CallerOf(r.Context()))...)
	}
	return out, nil
}

// dataURL says where a file is for the use that is asked for. Who may do it is the storage's to decide.
func (s *DataHandlers) dataURL(r *http.Request, _ web.None) (hubapi.DataURL, error) {
	if s.storage == nil {
		return hubapi.DataURL{}, errs.New(errs.Missing, "this site has no storage elements").
			With("the administrator sets data.storage in the configuration")
	}
	write, err := flag(r, "write")
	if err != nil {
		return hubapi.DataURL{}, err
	}
	direct, err := flag(r, "direct")
	if err != nil {
		return hubapi.DataURL{}, err
	}
	return s.storage.URL(r.URL.Query().Get("lfn"), write, direct)
}

// flag reads a parameter that is true or false; one that is missing is false.
func flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, errs.Bad(name, text, "true or false")
	}
	return v, nil
}
