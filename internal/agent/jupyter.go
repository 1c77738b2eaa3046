package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const maxAnswer = 1 << 20 // bytes of an app's answer: some thousand kernels

// jupyter asks a Jupyter Server what its kernels and terminals do. The server is the user's: what it answers is
// bounded.
type jupyter struct {
	base  string // URL of its base, with a slash at the end
	token string // lets the agent in; empty: the server asks for none
	trip  http.RoundTripper
}

// scene is what goes on in a Jupyter Server.
type scene struct {
	kernels, busy, terminals int

	last time.Time // of the latest activity of a kernel or terminal, by the clock that both share; zero: there was none
}

// newJupyter finds the server of an app that was started with env, as environ makes it, on a port of the loopback.
func newJupyter(env []string, address string) *jupyter {
	prefix := "/" + strings.Trim(variable(env, servicePrefix), "/")
	return &jupyter{
		base: "http://" + address + strings.TrimSuffix(prefix, "/") + "/", token: variable(env, "JUPYTERHUB_API_TOKEN"),
		trip: &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
	}
}

// look asks for the kernels and the terminals. A server need not have terminals.
func (j *jupyter) look(ctx context.Context) (scene, error) {
	kernels, status, err := j.get(ctx, "api/kernels")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("list the kernels: HTTP status %d", status)
	}
	if err != nil {
		return scene{}, err
	}
	terminals, status, err := j.get(ctx, "api/terminals")
	switch {
	case err != nil:
		return scene{}, err
	case status == http.StatusNotFound:
		terminals = []byte("[]")
	case status != http.StatusOK:
		return scene{}, fmt.Errorf("list the terminals: HTTP status %d", status)
	}
	return parseScene(kernels, terminals)
}

// get asks once. Being asked is no activity: without the parameter jupyterhub-singleuser would report it to the Hub as
// such.
func (j *jupyter) get(ctx context.Context, path string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.base+path+"?no_track_activity=1", nil)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the app: %s is not part of a URL", servicePrefix)
	}
	if j.token != "" {
		req.Header.Set("Authorization", "token "+j.token)
	}
	res, err := j.trip.RoundTrip(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the app: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("more than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the app's %s: %w", path, err)
	}
	return b, res.StatusCode, nil
}

// parseScene reads the lists of kernels and terminals. A kernel is "starting" until somebody has connected to it: only
// a busy one computes.
func parseScene(kernels, terminals []byte) (scene, error) {
	type row struct {
		State string `json:"execution_state"`
		Last  string `json:"last_activity"`
	}
	var ks, ts []row
	if err := json.Unmarshal(kernels, &ks); err != nil {
		return scene{}, fmt.Errorf("read the app's kernels: %w", err)
	}
	if err := json.Unmarshal(terminals, &ts); err != nil {
		return scene{}, fmt.Errorf("read the app's terminals: %w", err)
	}
	s := scene{kernels: len(ks), terminals: len(ts)}
	for i, r := range append(ks, ts...) {
		if i < len(ks) && r.State == "busy" {
			s.busy++
		}
		if at, err := time.Parse(time.RFC3339, r.Last); err == nil && at.After(s.last) {
			s.last = at
		}
	}
	return s, nil
}
