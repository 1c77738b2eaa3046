package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Exporter gives environments as files. Where one is there already Content has it, else Write makes it.
type Exporter interface {
	Export(ctx context.Context, c spawner.Caller, ref, form string) (Export, error)
}

// Export is an environment as a file.
type Export struct {
	Environment string // its digest
	Digest      string // of Content
	Content     io.ReadSeekCloser
	Write       func(ctx context.Context, w io.Writer) error
}

// exportEnvironment gives the file of an environment, or a part of it where the file is there already.
func (s *EnvironmentHandlers) exportEnvironment(w http.ResponseWriter, r *http.Request) error {
	ref, err := web.Param(r, "ref")
	if err != nil {
		return err
	}
	return s.SendEnvironment(w, r, ref, r.URL.Query().Get("as"))
}

// SendEnvironment sends an environment as a file of a form.
func (s *EnvironmentHandlers) SendEnvironment(w http.ResponseWriter, r *http.Request, ref, form string) error {
	switch {
	case form != "sif" && form != "oci":
		return errs.Bad("as", form, "sif or oci")
	case s.exporter == nil:
		return NoEnvironments()
	}
	ctx, cancel := s.web.Stream(r.Context())
	defer cancel()
	e, err := s.exporter.Export(ctx, web.CallerOf(r.Context()), ref, form)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(hubapi.EnvironmentHeader, e.Environment)
	if e.Content != nil {
		defer e.Content.Close()
		w.Header().Set("Etag", strconv.Quote(e.Digest))
		http.ServeContent(w, r, "", time.Time{}, e.Content)
		return nil
	}
	out := &begun{w: w}
	if err := e.Write(ctx, out); err != nil {
		if !out.yes {
			w.Header().Del("Content-Type")
			return err
		}
		panic(http.ErrAbortHandler) // the reader must not take what it has for the whole
	}
	return nil
}

// begun knows whether anything was written.
type begun struct {
	w   io.Writer
	yes bool
}

// Write passes on.
func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.w.Write(p)
}
