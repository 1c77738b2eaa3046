package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"slipway/hubapi"
)

// stubPassword is what the stub's registry wants.
const stubPassword = "registry-password"

// ship plays pushes and pulls of the one environment.
func (s *stubEnvironments) ship(mux *http.ServeMux) {
	mux.HandleFunc("POST "+hubapi.Base+"/environments/{ref}/push", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.PushRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !strings.HasPrefix(r.PathValue("ref"), "analysis") {
			refuse(w, 404, "not_found", "there is no environment "+r.PathValue("ref"), "")
			return
		}
		if r.PathValue("ref") == "analysis@arm64" {
			event(w, hubapi.EventDone, hubapi.Pushed{Environment: "sha256:" + strings.Repeat("a", 64)})
			return
		}
		if req.Login.Password != stubPassword || req.Login.Username != "alice" {
			refuse(w, 403, "forbidden", "the registry does not let you in", "log in")
			return
		}
		event(w, hubapi.EventProgress, hubapi.Progress{Stage: "pushing", Percent: 50, Bytes: 88_000_000, Message: "sending what it lacks"})
		sent := int64(88_412_160)
		if req.SIF {
			sent = 900_000_000
		}
		event(w, hubapi.EventDone, hubapi.Pushed{Environment: s.one.Digest, Index: "sha256:" + strings.Repeat("1", 64), Sent: sent})
	})
	mux.HandleFunc("POST "+hubapi.Base+"/environment-pulls", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.PullRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !req.Unsigned {
			event(w, hubapi.EventProgress, hubapi.Progress{Stage: "pulling", Percent: -1, Message: "asking it"})
			event(w, hubapi.EventError, hubapi.ErrorBody{Error: hubapi.ErrorDetail{Code: "forbidden", Message: "nobody has signed it", Remedy: "use --unsigned"}})
			return
		}
		e := s.one
		e.Name, e.Tag, e.Note = req.Name, req.Tag, req.Note
		event(w, hubapi.EventDone, e)
	})
	mux.HandleFunc("POST "+hubapi.Base+"/environment-credentials", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.CredentialRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Workload != "j-1" {
			refuse(w, 409, "conflict", "j-2 is not active any more", "ask while it runs")
			return
		}
		_ = json.NewEncoder(w).Encode(hubapi.EnvironmentCredential{
			Workload: "j-1", Registry: "here.example:8090", Plain: true, Reference: "oras://here.example:8090/environment:aa", Username: "job", Password: stubPassword,
		})
	})
	mux.HandleFunc("GET "+hubapi.Base+"/environments/{ref}/export", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("ref") != "analysis" {
			refuse(w, 404, "not_found", "there is no environment "+r.PathValue("ref"), "")
			return
		}
		w.Header().Set(hubapi.EnvironmentHeader, s.one.Digest)
		_, _ = io.WriteString(w, "an image as "+r.URL.Query().Get("as"))
	})
}
