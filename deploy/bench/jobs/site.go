package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"slipway/hubapi"
)

const (
	user      = "bench"
	userID    = 20000
	userGroup = 100
	userToken = "token-of-" + user
	spawner   = "spawner-token-of-the-benchmark-of-jobs"
)

// site is a service of this run's own.
type site struct {
	dir, url string
	hub      *httptest.Server
	serve    *exec.Cmd
	jobs     *hubapi.Client // as the user
	spawner  *hubapi.Client
	digest   string // of the environment
	sif      string
}

// app is the session's: it changes the environment, so that there is something to freeze, and answers.
const app = `
import http.server, os, urllib.parse
open("/opt/env/changed", "w").write("changed")
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", urllib.parse.urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"]).port or 80), App).serve_forever()
`

// newSite starts a service and freezes a session of its.
func newSite(ctx context.Context, o options) (_ *site, err error) {
	if o.slipway == "" || os.Geteuid() != 0 {
		return nil, errors.New("it needs root, and -slipway with the path of the program, built with CGO_ENABLED=0")
	}
	s := &site{hub: httptest.NewServer(http.HandlerFunc(answer))}
	if s.dir, err = os.MkdirTemp("/var/tmp", "slipway-bench-jobs."); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(true))
		}
	}()
	if err := os.Chmod(s.dir, 0o711); err != nil { // users of jobs pass through here to their homes
		return nil, err
	}
	if err := s.configure(o); err != nil {
		return nil, err
	}
	if err := s.start(ctx, o); err != nil {
		return nil, err
	}
	return s, s.freeze(ctx)
}

// answer plays the Hub: it knows one user, by her token.
func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/hub/api/user" || r.Header.Get("Authorization") != "token "+userToken {
		http.Error(w, `{"status": 403, "message": "Forbidden"}`, http.StatusForbidden)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "user", "name": user, "admin": false, "scopes": []string{"access:services!service=slipway"},
	})
}

func (s *site) configure(o options) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_ = l.Close()
	s.url = "http://" + address
	if s.jobs, err = hubapi.NewClient(hubapi.ClientConfig{URL: s.url, Token: userToken}); err != nil {
		return err
	}
	if s.spawner, err = hubapi.NewClient(hubapi.ClientConfig{URL: s.url, Token: spawner}); err != nil {
		return err
	}
	text := fmt.Sprintf(`
listen: %[1]s
data_dir: %[2]s/data
instance: %[7]q
hubs:
  - {name: main, api_url: %[3]s/hub/api, service: slipway, spawner_token_file: %[2]s/spawner.token}
users: {uids: %[4]d-20999, gid: %[5]d, homes: %[2]s/homes}
images:
  - {name: notebook, display_name: Notebook, ref: %[6]q}
profiles:
  - {name: small, display_name: Small, kind: lab, images: [notebook], cpus: 1, memory: 512M, default: true}
jobs: {max_cpus: 1, max_memory: 1G, default_cpus: 1, default_memory: 512M, default_time: 5m, max_time: 1h}
docker: {max_total_cpus: 1, max_total_memory: 1G, network: bridge}
local: {apptainer: %[8]q, max_jobs: %[9]d}
`, address, s.dir, s.hub.URL, userID, userGroup, o.image, filepath.Base(s.dir), o.apptainer, o.atOnce)
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "spawner.token"), []byte(spawner), 0o600),
		os.WriteFile(filepath.Join(s.dir, "slipway.yaml"), []byte(text), 0o600),
	)
}

func (s *site) start(ctx context.Context, o options) error {
	log, err := os.Create(filepath.Join(s.dir, "serve.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.serve = exec.Command(o.slipway, "serve", "--config", filepath.Join(s.dir, "slipway.yaml"))
	s.serve.Stdout, s.serve.Stderr = log, log
	if err := s.serve.Start(); err != nil {
		return err
	}
	return until(ctx, "the service is ready", time.Minute, func() (bool, error) {
		resp, err := http.Get(s.url + "/readyz")
		if err != nil {
			return false, nil // it does not listen yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// freeze makes the environment, and removes the session.
func (s *site) freeze(ctx context.Context) error {
	prefix := "/user/" + user + "/"
	session, err := s.spawner.StartSession(ctx, hubapi.SessionRequest{
		User: user, Launch: "one", Prefix: prefix, Options: map[string]any{}, Argv: []string{"python3", "-c", app},
		Env: map[string]string{
			"JUPYTERHUB_SERVICE_PREFIX": prefix, "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:8888" + prefix,
		},
	})
	if err != nil {
		return err
	}
	if err := until(ctx, "the session runs", 5*time.Minute, func() (bool, error) {
		now, err := s.spawner.Session(ctx, session.ID)
		return now.Phase == "running", err
	}); err != nil {
		return err
	}
	env, err := s.jobs.Freeze(ctx, session.ID, hubapi.FreezeRequest{}, func(hubapi.Progress) {})
	if err != nil {
		return err
	}
	s.digest = env.Digest
	if _, err := s.spawner.StopSession(ctx, session.ID); err != nil {
		return err
	}
	if err := until(ctx, "the session has ended", time.Minute, func() (bool, error) {
		now, err := s.spawner.Session(ctx, session.ID)
		return now.Phase == "stopped", err
	}); err != nil {
		return err
	}
	if err := s.spawner.RemoveSession(ctx, session.ID); err != nil {
		return err
	}
	return s.findImage()
}

// findImage finds the environment's image file.
func (s *site) findImage() error {
	want := strings.TrimPrefix(s.digest, "sha256:") + ".sif"
	err := filepath.WalkDir(filepath.Join(
		s.dir, "data", "environments",
	), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == want {
			s.sif = path
		}
		return err
	})
	if err == nil && s.sif == "" {
		err = fmt.Errorf("no image file %s", want)
	}
	return err
}

// close removes all that there is; its logs are kept after an error.
func (s *site) close(failed bool) error {
	defer s.hub.Close()
	var all error
	if s.serve != nil && s.serve.Process != nil {
		all = errors.Join(all, s.empty(), s.serve.Process.Signal(syscall.SIGTERM))
		if err := s.serve.Wait(); err != nil && all == nil {
			all = err
		}
	}
	if failed || all != nil {
		fmt.Fprintln(os.Stderr, "the service's directory is kept:", s.dir)
		return all
	}
	_ = syscall.Unmount(filepath.Join(s.dir, "data", "storage"), syscall.MNT_DETACH)
	for _, at := range []string{"", "*/"} {
		left, _ := filepath.Glob("/sys/fs/cgroup/" + at + filepath.Base(s.dir))
		for _, dir := range left {
			for _, group := range []string{s.group() + "/shims", s.handGroup(), s.group(), ""} {
				_ = os.Remove(filepath.Join(filepath.Dir(dir), cmp.Or(group, filepath.Base(dir))))
			}
		}
	}
	return os.RemoveAll(s.dir)
}

// empty cancels and removes what is left of jobs.
func (s *site) empty() error {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	list, err := s.jobs.JobsAndScans(ctx, hubapi.JobFilter{})
	if err != nil {
		return err
	}
	for _, scan := range list.Scans {
		if _, err := s.jobs.CancelScan(ctx, scan.ID); err != nil {
			return err
		}
		if _, err := s.jobs.RemoveScan(ctx, scan.ID); err != nil {
			return err
		}
	}
	for _, job := range list.Jobs {
		if err := s.jobs.RemoveJob(ctx, job.ID); err != nil {
			return err
		}
	}
	return until(ctx, "all jobs are removed", 5*time.Minute, func() (bool, error) {
		list, err := s.jobs.JobsAndScans(ctx, hubapi.JobFilter{})
		return len(list.Jobs)+len(list.Scans) == 0, err
	})
}

// pause is between two questions: often enough for what takes tenths of a second, and no load.
const pause = 50 * time.Millisecond

// scanPause is the same for a scan, which takes many seconds. An answer about one costs the service a millisecond of
// processor time.
const scanPause = 10 * pause

func until(ctx context.Context, what string, limit time.Duration, ok func() (bool, error)) error {
	return untilEvery(ctx, pause, what, limit, ok)
}

func untilEvery(
	ctx context.Context, pause time.Duration, what string, limit time.Duration, ok func() (bool, error),
) error {
	end := time.After(limit)
	for {
		if done, err := ok(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fmt.Errorf("not within %s: %s", limit, what)
		case <-time.After(pause):
		}
	}
}
