package kernels

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
)

// model is a kernel as clients know it.
type model struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Activity    string `json:"last_activity"`
	State       string `json:"execution_state"`
	Connections int    `json:"connections"`
	Reason      string `json:"reason,omitempty"`   // why it is dead
	Progress    string `json:"progress,omitempty"` // what happened last in its start
	// Session is the kernel's own, for this service's clients.
	Session spawner.ID `json:"session"`
}

// specModel is a kernelspec as clients know it.
type specModel struct {
	Name      string            `json:"name"`
	Spec      specFile          `json:"spec"`
	Resources map[string]string `json:"resources"`
}

type specFile struct {
	Argv          []string          `json:"argv"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"`
	Env           map[string]string `json:"env"`
	Metadata      map[string]any    `json:"metadata"`
}

// modelOf makes it, for clients that know the gateway by the path root.
func modelOf(root string, s Spec) specModel {
	m := specModel{Name: s.Name, Resources: map[string]string{}, Spec: specFile{
		Argv: s.Session.Argv, DisplayName: s.DisplayName, Language: s.Language, InterruptMode: cmp.Or(s.Session.Interrupt, "signal"),
		Env: map[string]string{}, Metadata: map[string]any{},
	}}
	maps.Copy(m.Spec.Metadata, s.Metadata)
	for _, l := range s.Logos {
		m.Resources[l.Key] = root + "/kernelspecs/" + s.Name + "/" + l.File
	}
	return m
}

// rootOf gives the path of the gateway itself, from one of a kernelspec.
func rootOf(path string) string { return path[:max(0, strings.LastIndex(path, "/api/kernelspecs"))] }

// over reports whether a kernel has ended, or is about to.
func over(w spawner.Workload) bool {
	return w.Want != spawner.WantRunning || w.Phase == spawner.Stopping && !w.Moving || !w.Phase.Active()
}

// whyOver says why a kernel has ended.
func whyOver(w spawner.Workload) string {
	why := "the kernel was shut down"
	if o := w.Outcome; o != nil && o.Reason != "" {
		if why = o.Reason; o.Remedy != "" {
			why += ": " + o.Remedy
		}
	}
	return why
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
