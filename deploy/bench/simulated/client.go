package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"slipway/hubapi"
)

// client speaks to the service as the Hub's Spawner does.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string) client {
	return client{
		url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * atOnce}, Timeout: 2 * time.Minute},
	}
}

// start starts a session, waits until it runs and asks its app for its version, all as a Hub does. It sends about as
// much environment, too.
func (c client) start(ctx context.Context, user string) (string, error) {
	env := map[string]string{}
	for i := range 20 {
		env[fmt.Sprintf("JUPYTERHUB_SETTING_%d", i)] = "http://127.0.0.1:8081/hub/api/and/some/more"
	}
	var s hubapi.Session
	err := c.call(ctx, http.MethodPost, "/sessions", hubapi.SessionRequest{
		User: user, Launch: "one", Prefix: "/user/" + user + "/", Argv: []string{"jupyterhub-singleuser"},
		Options: map[string]any{}, Env: env,
	}, &s)
	for err == nil && s.Phase != "running" {
		if s.Outcome != nil {
			return "", fmt.Errorf("start for %s: %s", user, s.Outcome.Reason)
		}
		err = c.call(ctx, http.MethodGet, "/sessions/"+s.ID+"/wait?launch=one", nil, &s)
	}
	if err == nil {
		err = c.do(ctx, http.MethodGet, c.url+"/user/"+user+"/api", nil, nil)
	}
	return s.ID, err
}

func (c client) poll(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodGet, "/sessions/"+id, nil, &hubapi.Session{})
}

func (c client) stopAndRemove(ctx context.Context, id string) error {
	if err := c.call(ctx, http.MethodPost, "/sessions/"+id+"/stop", nil, &hubapi.Session{}); err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, "/sessions/"+id, nil, nil)
}

func (c client) figures(ctx context.Context, reset bool) (figures, error) {
	path := figuresPath
	if reset {
		path += "?reset"
	}
	var f figures
	err := c.do(ctx, http.MethodGet, c.url+path, nil, &f)
	return f, err
}

func (c client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, method, c.url+hubapi.Base+path, body, out)
}

func (c client) do(ctx context.Context, method, url string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer bench")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode > 299:
		return fmt.Errorf("%s %s: %d %s", method, url, resp.StatusCode, text)
	case out == nil:
		return nil
	default:
		return json.Unmarshal(text, out)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
