package kernels

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"slipway/internal/errs"
)

// What is borne of a request's body.
const (
	bodyLimit = 1 << 20
	bodyTime  = 30 * time.Second
)

func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // not all connections have one
	defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }()
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(into)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &errs.Error{
			Kind: errs.TooLarge, Field: "body", Message: "body: it is larger than the 1 MiB that a request may have",
			Remedy: "send less in env",
		}
	}
	return err
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader has gone: nobody is left to tell
}

// writeFault answers with an error in the form that Jupyter's clients show.
func writeFault(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"reason": http.StatusText(status), "message": message})
}

// refuse answers with an error. What is of no kind is only logged: its words may tell of other users or of the host.
func (g *gateway) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, context.Canceled) { // the client has gone: nobody is left to tell
		g.Logger.Debug("a request of the kernel gateway was given up", "error", err)
		return
	}
	kind, message := errs.KindOf(err), err.Error()
	switch kind {
	case errs.Internal:
		g.Logger.Error("internal error of the kernel gateway", "error", err)
		message = "something went wrong inside Slipway: the administrator finds it in the service's log"
	case errs.Unauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	status := errs.RowOf(kind).Status
	if kind == errs.Invalid {
		status = http.StatusBadRequest // as Jupyter has it
	}
	writeFault(w, status, message)
}
