package agent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

const maxApp = 8 << 20 // bytes of an App on the wire

// routes serves the control door; see package control.
func (a *agent) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		st, _ := a.app.now()
		_ = json.NewEncoder(w).Encode(st)
	})
	m.HandleFunc("GET /watch", a.serveWatch)
	m.HandleFunc("GET /log", a.serveLog)
	m.HandleFunc("PUT /files/{name}", answer(func(r *http.Request) error {
		if a.app.launched() {
			return errs.New(errs.Conflict, "the app was launched: no more inputs")
		}
		return a.app.files.put(r.PathValue("name"), r.Body)
	}))
	m.HandleFunc("GET /files/{name}", a.serveFile)
	m.HandleFunc("POST /app", answer(func(r *http.Request) error {
		var app control.App
		if err := json.NewDecoder(io.LimitReader(r.Body, maxApp)).Decode(&app); err != nil {
			return errs.New(errs.Invalid, "read the app: %w", err)
		}
		return a.app.launch(app)
	}))
	m.HandleFunc("GET /activity", a.serveActivity)
	m.HandleFunc("GET /kernel", a.serveKernel)
	m.HandleFunc("POST /kernel/interrupt", answer(func(*http.Request) error {
		k, err := a.app.needKernel()
		if err != nil {
			return err
		}
		return k.Interrupt()
	}))
	m.HandleFunc("POST /kernel/restart", answer(func(r *http.Request) error {
		k, err := a.app.needKernel()
		if err != nil {
			return err
		}
		return k.Restart(r.Context())
	}))
	m.HandleFunc("POST /changes", a.packer().serve)
	m.HandleFunc("POST /notify", answer(a.notify))
	m.HandleFunc("PUT /credentials", answer(a.credentials.put))
	m.HandleFunc("POST /doctor", answer(a.rounds.serve))
	m.HandleFunc("POST /end", answer(func(*http.Request) error {
		a.end()
		a.app.end()
		return nil
	}))
	return m
}

// answer makes a handler that answers 204 or the error.
func answer(f func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(r); err != nil {
			control.WriteError(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (a *agent) serveWatch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	say := func(st control.Status) bool {
		return lines.Encode(st) == nil && http.NewResponseController(w).Flush() == nil
	}
	for {
		st, changed := a.app.now()
		if !say(st) {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-a.finished:
			if last, _ := a.app.now(); last.State != st.State {
				say(last)
			}
			return
		}
	}
}

func (a *agent) serveLog(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if err != nil && r.FormValue("from") != "" || from < 0 {
		control.WriteError(w, errs.Bad("from", r.FormValue("from"), "a number of bytes"))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	follow := r.FormValue("follow") == "1"
	if out := a.output(r.Context(), w, follow); out != nil {
		_ = copyLog(r.Context(), w, out, from, follow)
	}
}

// output returns the app's output, nil when there is none. With follow it waits for the launch.
func (a *agent) output(ctx context.Context, w http.ResponseWriter, follow bool) *output {
	for {
		out, state, changed := a.app.printed()
		if out != nil || !follow || state == control.Exited {
			return out
		}
		if http.NewResponseController(w).Flush() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		case <-a.finished:
			return nil
		}
	}
}

func copyLog(ctx context.Context, w http.ResponseWriter, out *output, from int64, follow bool) error {
	buf := make([]byte, 64<<10)
	for {
		n, next, more, err := out.readAt(buf, from)
		if err != nil {
			return err
		}
		if from = next; n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			continue
		}
		if !follow {
			return nil
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *agent) serveFile(w http.ResponseWriter, r *http.Request) {
	f, size, err := a.app.files.open(r.PathValue("name"))
	if err != nil {
		control.WriteError(w, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	_, _ = io.CopyN(w, f, size)
}
