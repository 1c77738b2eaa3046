package api

import (
	"io"
	"net/http"
	"time"

	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// putBlob takes the body as it is for an input file of jobs to come.
func (s *JobHandlers) putBlob(w http.ResponseWriter, r *http.Request) error {
	digest, err := web.Param(r, "digest")
	if err != nil {
		return err
	}
	if r.ContentLength > control.FileLimit {
		return &errs.Error{
			Kind: errs.TooLarge, Field: "body", Message: "body: the file is larger than the 1 GiB that one may have",
			Remedy: "put it into your home or a storage, or into several files",
		}
	}
	body := &unhurried{r.Body, http.NewResponseController(w)}
	defer body.end()
	if err := s.files.PutBlob(r.Context(), web.CallerOf(r.Context()), digest, body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// hasBlob says by its status whether the caller has put a file.
func (s *JobHandlers) hasBlob(w http.ResponseWriter, r *http.Request) error {
	digest, err := web.Param(r, "digest")
	if err != nil {
		return err
	}
	if !s.files.HasBlob(r.Context(), web.CallerOf(r.Context()), digest) {
		return errs.New(errs.NotFound, "you have put no file of this digest").With("put it")
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// unhurried is a body that may take as long as it likes, so long as something comes of it.
type unhurried struct {
	io.Reader
	c *http.ResponseController
}

// Read gives what comes next its time.
func (u *unhurried) Read(b []byte) (int, error) {
	_ = u.c.SetReadDeadline(time.Now().Add(web.BodyTime)) // not all connections have one
	return u.Reader.Read(b)
}

func (u *unhurried) end() { _ = u.c.SetReadDeadline(time.Time{}) }
