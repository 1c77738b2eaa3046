package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// stubService answers with the examples that all clients of the API are tested with. It knows alice by her token and by
// her session's socket; bob has a token and owns nothing.
type stubService struct {
	url, socket  string
	session      hubapi.Session
	job          hubapi.Job
	plan         hubapi.JobPlan
	jobsUsage    hubapi.JobsUsage
	blobs        stubBlobs
	scans        stubScans
	environments stubEnvironments
	gpus         stubGPUs
	ssh          stubSSH
	logins       stubLogins
	credentials  stubCredentials
	kernels      *stubKernels
	ends         []func()
}

func newStubService(examples string) (*stubService, error) {
	f := &stubService{ssh: stubSSH{looks: map[string]int{}, asked: map[string]hubapi.SSHLoginRequest{}}}
	f.logins = stubLogins{looks: map[string]int{}, tokens: map[string]string{}}
	for name, into := range map[string]any{
		"ssh": &f.ssh.service, "ssh-key": &f.ssh.key, "profile": &f.ssh.profile,
		"session": &f.session, "job": &f.job, "plan": &f.plan, "jobs-usage": &f.jobsUsage, "point-event": &f.scans.event, "scan": &f.scans.one, "point": &f.scans.point, "change": &f.scans.change, "why": &f.scans.why, "gpus": &f.gpus.all, "pool": &f.gpus.pool, "environment": &f.environments.one,
		"details": &f.environments.details, "diff": &f.environments.diff, "check": &f.environments.check, "usage": &f.environments.usage,
	} {
		text, err := os.ReadFile(filepath.Join(examples, name+".json"))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, err
		}
	}
	f.kernels = newStubKernels(f.session)
	dir, err := os.MkdirTemp("", "slipway") // short, for the socket's path
	if err != nil {
		return nil, err
	}
	f.socket = filepath.Join(dir, "api.sock")
	listener, err := net.Listen("unix", f.socket)
	if err != nil {
		return nil, err
	}
	inside := httptest.NewUnstartedServer(f.routes("alice"))
	inside.Listener = listener
	inside.Start()
	outside := httptest.NewServer(http.HandlerFunc(f.byToken))
	f.url = outside.URL
	f.ends = []func(){inside.Close, outside.Close, func() { _ = os.RemoveAll(dir) }}
	return f, nil
}

// keep takes up to a day, as the example's session may be kept.
func (f *stubService) keep(w http.ResponseWriter, r *http.Request) {
	var req hubapi.KeepRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	if d, err := time.ParseDuration(req.For); err != nil || d > 24*time.Hour {
		refuse(w, 422, "invalid", "for: "+req.For+" is not valid", "a time such as 4h, at most 24h0m0s")
		return
	}
	answer(w, f.session)
}

func (f *stubService) close() {
	for _, end := range f.ends {
		end()
	}
}

func (f *stubService) byToken(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Authorization") {
	case "Bearer alice-token":
		f.routes("alice").ServeHTTP(w, r)
	case "Bearer carol-token":
		f.kernels.routes().ServeHTTP(w, r)
	case "Bearer bob-token":
		f.routes("bob").ServeHTTP(w, r)
	case "":
		public := http.NewServeMux()
		public.HandleFunc("POST "+hubapi.Base+"/login/device", f.logins.begin)
		public.HandleFunc("POST "+hubapi.Base+"/login/token", f.logins.poll)
		public.Handle("/", f.ssh.public())
		public.ServeHTTP(w, r)
	default:
		if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); f.logins.holds(token) {
			mux := http.NewServeMux()
			mux.HandleFunc("DELETE "+hubapi.Base+"/tokens/{id}", func(w http.ResponseWriter, r *http.Request) {
				f.logins.revoke(w, r, token)
			})
			mux.Handle("/", f.routes("alice"))
			mux.ServeHTTP(w, r)
			return
		}
		refuse(w, 401, "unauthorized", "the token is not known", "get a new one from the Hub's token page")
	}
}

// usage is of the example's session and job: of the job nothing was measured.
func (f *stubService) usage(w http.ResponseWriter, r *http.Request, user string) {
	list := hubapi.UsageList{Workloads: []hubapi.UsageNow{}}
	switch {
	case r.URL.Query().Get("all") == "true" && user != f.session.User:
		refuse(w, 403, "forbidden", "what everybody uses is for administrators", "leave it out to see what is yours")
		return
	case user == f.session.User:
		cpu, memory, busy := 1.25, int64(3<<29), 40.0
		up := time.Now().Add(-2 * time.Hour)
		list.Waiting = 3
		list.Workloads = []hubapi.UsageNow{
			{
				Meta: f.session.Meta, Kind: "lab", Up: up, CPUs: 2, Memory: 4 << 30, Slice: "1g.18gb", GPUMemory: 16 << 30,
				Use: hubapi.UsagePoint{CPU: &cpu, Memory: &memory, GPU: &busy},
			},
			{Meta: f.job.Meta, Kind: "job", Up: up, CPUs: 1, Memory: 1 << 30},
		}
	}
	answer(w, list)
}

// routes are what user sees.
func (f *stubService) routes(user string) http.Handler {
	mux := http.NewServeMux()
	mine := func(pattern string, serve http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id := r.PathValue("id")
			if user != f.session.User || id != "" && id != f.session.ID && id != f.job.ID && id != f.scans.one.ID && id != f.scans.point.ID && id != hubapi.Self {
				refuse(w, 404, "not_found", "there is no "+id, "")
				return
			}
			serve(w, r)
		})
	}
	const api = hubapi.Base
	mux.HandleFunc("GET "+api+"/sessions", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.sessionsOf(user)) })
	mux.HandleFunc("GET "+api+"/jobs", func(w http.ResponseWriter, r *http.Request) { f.list(w, r, user) })
	mux.HandleFunc("GET "+api+"/data/plan", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.DataPlan{Now: time.Now(), User: user, CVMFS: []string{"dead.example.org"}})
	})
	mux.HandleFunc("PUT "+api+"/sessions/self/data-check", func(w http.ResponseWriter, r *http.Request) {
		var report hubapi.DataReport
		_ = json.NewDecoder(r.Body).Decode(&report)
		answer(w, report)
	})
	mux.HandleFunc("GET "+api+"/me", func(w http.ResponseWriter, r *http.Request) {
		me := hubapi.Me{User: user, Hub: "main"}
		if r.Header.Get("Authorization") == "" {
			me.Session = f.session.ID
		}
		answer(w, me)
	})
	f.gpus.routes(mux, user == f.session.User)
	mux.HandleFunc("GET "+api+"/usage", func(w http.ResponseWriter, r *http.Request) { f.usage(w, r, user) })
	f.environments.routes(mux, user == f.session.User)
	if user == f.session.User {
		f.environments.ship(mux)
	}
	mine("GET "+api+"/sessions/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.session) })
	mine("POST "+api+"/sessions/{id}/stop", func(w http.ResponseWriter, _ *http.Request) {
		stopped := f.session
		stopped.Phase = "stopped"
		answer(w, stopped)
	})
	mine("POST "+api+"/sessions/{id}/keep", f.keep)
	mine("DELETE "+api+"/sessions/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mine("POST "+api+"/sessions/{id}/freeze", f.environments.freeze)
	mine("POST "+api+"/jobs", f.submit)
	mine("POST "+api+"/jobs/check", f.check)
	mine("GET "+api+"/jobs/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.job) })
	mine("GET "+api+"/jobs/{id}/log", func(w http.ResponseWriter, r *http.Request) {
		if tail := r.URL.Query().Get("tail"); tail != "" {
			fmt.Fprintln(w, "the last "+tail+" lines of "+r.PathValue("id"))
			return
		}
		fmt.Fprintln(w, "hello from the job")
	})
	mine("GET "+api+"/jobs/usage", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.jobsUsage) })
	mine("POST "+api+"/jobs/{id}/retry", f.retry)
	mine("POST "+api+"/jobs/{id}/resubmit", f.resubmit)
	f.blobs.routes(mine)
	mine("GET "+api+"/jobs/{id}/events", func(w http.ResponseWriter, _ *http.Request) {
		event(w, "message", hubapi.Event{Seq: 1, Percent: 100, Message: "ended", Final: true, Failed: true})
	})
	mine("POST "+api+"/jobs/{id}/cancel", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.job) })
	mine("DELETE "+api+"/jobs/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	f.scans.routes(mine)
	f.ssh.routes(mine)
	f.credentials.routes(mux, user)
	mux.Handle("GET "+api+"/ssh", f.ssh.public())
	mine("POST "+api+"/jobs/{id}/{verb}", func(w http.ResponseWriter, r *http.Request) { answer(w, f.scans.changed(r.PathValue("verb"))) })
	mine("GET "+api+"/jobs/{id}/why", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.scans.why) })
	mine("GET "+api+"/jobs/{id}/files", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.Files{Files: []hubapi.File{{Name: "result.txt", Size: 3}, {Name: "slipway-outcome.json", Size: 90}, {Name: "slipway-result.pkl", Size: 9}}})
	})
	mine("GET "+api+"/jobs/{id}/files/{name}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "42\n") })
	return mux
}

// recently makes a time of an example one that a list shows as "3m ago".
func recently() time.Time { return time.Now().Add(-3*time.Minute - time.Second) }

func (f *stubService) sessionsOf(user string) hubapi.Sessions {
	if user != f.session.User {
		return hubapi.Sessions{Sessions: []hubapi.Session{}}
	}
	waiting := f.session
	waiting.ID, waiting.Name, waiting.Phase, waiting.Waiting = "s-fedcba9876543210", "big \x1b[31mred", "pending", "4 CPUs are asked for, 1 is free"
	list := []hubapi.Session{f.session, waiting}
	for i := range list {
		list[i].Since = recently()
	}
	return hubapi.Sessions{Sessions: list}
}

// submit refuses what the scripts submit by mistake, and gives the example of a job.
func (f *stubService) submit(w http.ResponseWriter, r *http.Request) {
	var req hubapi.JobRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Environment == "" || len(req.Files) < 1 || req.RequestID == "" {
		refuse(w, 422, "invalid", fmt.Sprintf("not what was expected: %v", err), "")
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if len(req.Points) > 0 {
		answer(w, f.scans.submitted(req))
		return
	}
	job := f.job
	job.Argv, job.Name, job.Retries, job.Priority, job.After, job.Out, job.Backend = req.Argv, req.Name, req.Retries, req.Priority, req.After, req.Out, req.Backend
	if job.Backend == "" || job.Backend == "any" {
		job.Backend = "local"
	}
	answer(w, job)
}

// check refuses what the scripts ask too much of.
func (f *stubService) check(w http.ResponseWriter, r *http.Request) {
	var req hubapi.JobRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Files) > 0 {
		refuse(w, 422, "invalid", fmt.Sprintf("not what was expected: %v", err), "")
		return
	}
	if req.Memory == "9G" {
		e := errs.Over("memory", "9 GiB", "8 GiB", "a job")
		w.WriteHeader(422)
		answer(w, hubapi.ErrorBody{Error: hubapi.ErrorDetail{Code: "invalid", Message: e.Message, Field: e.Field, Remedy: e.Remedy}})
		return
	}
	plan := f.plan
	if req.Backend != "" {
		plan.Backend = req.Backend
	}
	answer(w, plan)
}

func answer(w io.Writer, v any) {
	_ = json.NewEncoder(w).Encode(v) // a client that went away is the test's own affair
}

func event(w io.Writer, name string, v any) {
	data, _ := json.Marshal(v)
	fmt.Fprintf(w, "event: %s\nid: 1\ndata: %s\n\n", name, data)
}

func refuse(w http.ResponseWriter, status int, code, message, remedy string) {
	w.WriteHeader(status)
	answer(w, map[string]any{"error": map[string]string{"code": code, "message": message, "remedy": remedy}})
}
