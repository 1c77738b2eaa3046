package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"slipway/hubapi"
)

// stubGPUs is the example of a site's GPUs, of which the first can be drained. Its first resume leaves something to be
// said.
type stubGPUs struct {
	mu      sync.Mutex
	all     hubapi.GPUs
	pool    hubapi.PoolGPUs
	resumed int
}

func (f *stubGPUs) routes(mux *http.ServeMux, admin bool) {
	const api = hubapi.Base
	mux.HandleFunc("GET "+api+"/gpus", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, f.all)
	})
	mux.HandleFunc("GET "+api+"/gpus/pool", func(w http.ResponseWriter, r *http.Request) {
		all := f.pool
		switch {
		case r.URL.Query().Get("format") == "classad":
			_, _ = w.Write([]byte("[\n  DeviceName = \"NVIDIA H200\";\n]\n"))
			return
		case r.URL.Query().Get("history") == "":
			all.History = []hubapi.PoolHistory{}
		}
		answer(w, all)
	})
	for _, what := range []string{"drain", "resume"} {
		mux.HandleFunc("POST "+api+"/gpus/{gpu}/"+what, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			name, uuid := r.PathValue("gpu"), f.all.GPUs[0].UUID
			switch {
			case !admin:
				refuse(w, 403, "forbidden", "only administrators take GPUs out of use", "")
			case name != "0" && !strings.HasPrefix(uuid, name):
				refuse(w, 404, "not_found", "there is no GPU \""+name+"\"", "there is 0 ("+uuid+")")
			default:
				answer(w, f.change(r, what))
			}
		})
	}
}

func (f *stubGPUs) change(r *http.Request, what string) hubapi.GPUChange {
	g, done := &f.all.GPUs[0], hubapi.GPUChange{GPU: f.all.GPUs[0].UUID}
	if what == "drain" {
		var req hubapi.DrainRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		g.Condition, g.Why = "drained", "drained by alice: "+req.Why
	} else {
		g.Condition, g.Why = "ready", ""
		if f.resumed++; f.resumed == 1 {
			done.Remark = "used by somebody else"
		}
	}
	done.GPUs = f.all
	return done
}
