package hubapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
)

func clientOf(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := NewClient(ClientConfig{URL: srv.URL + "/", Token: "geheim"})
	if err != nil {
		t.Fatal(err)
	}
	c.pause = func(context.Context, int) error { return nil }
	return c
}

func TestNewClientRefuses(t *testing.T) {
	for _, cfg := range []ClientConfig{{}, {URL: "hub.example:8000"}, {URL: "ftp://x"}, {URL: "http://"}, {URL: "http://x", Socket: "/y"}, {URL: "http://%zz"}} {
		if _, err := NewClient(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestClientOverASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.RequestURI != "/api/v1/me" {
			t.Errorf("%s with %v", r.RequestURI, r.Header)
		}
		fmt.Fprint(w, `{"user":"alice","session":"s-1"}`)
	}))
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c, err := NewClient(ClientConfig{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	if me, err := c.Me(t.Context()); err != nil || me.User != "alice" || me.Session != "s-1" {
		t.Errorf("%+v, %v", me, err)
	}
}

func TestClientErrors(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		kind   errs.Kind
		remedy string
	}{
		{422, string(example(t, "error.json")), errs.Invalid, "at most 8G"},
		{404, `{"error":{"code":"not_found","message":"x"}}`, errs.NotFound, ""},
		{418, `{"error":{"code":"of_the_future","message":"x"}}`, errs.Internal, ""},
		{502, `<html>`, errs.Unavailable, "try again"},
		{504, ``, errs.Unavailable, "try again"},
		{404, `<html>`, errs.NotFound, "check that the URL"},
		{302, ``, errs.Internal, "check that the URL"},
	} {
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://elsewhere.invalid/")
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		})
		_, err := c.Me(t.Context())
		e, ok := errors.AsType[*errs.Error](err)
		if !ok || e.Kind != tc.kind || !strings.Contains(e.Remedy, tc.remedy) {
			t.Errorf("%d %.20q: %#v", tc.status, tc.body, err)
		}
	}
}

func TestClientWithoutAService(t *testing.T) {
	c := clientOf(t, nil)
	c.base = "http://127.0.0.1:1"
	if _, err := c.Me(t.Context()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("%v", err)
	}
	if err := c.JobEvents(t.Context(), "j-1", func(Event) error { return nil }); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "gave up") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Me(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEventsGoOnWhereTheyBroke(t *testing.T) {
	var asked []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		switch len(asked) {
		case 1:
			fmt.Fprint(w, "id: 4\ndata: {\"seq\":4}\n\nid: 5\ndata: {\"se")
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			fmt.Fprint(w, "id: 5\ndata: {\"seq\":5,\"final\":true}\n\n")
		}
	})
	var got []int64
	err := c.SessionEvents(t.Context(), "s-1", "l", func(e Event) error { got = append(got, e.Seq); return nil })
	if err != nil || fmt.Sprint(got) != "[4 5]" || fmt.Sprintf("%q", asked) != `["" "4" "4"]` {
		t.Errorf("%v, %q, %v", got, asked, err)
	}
	stop := errors.New("enough")
	if err := c.SessionEvents(t.Context(), "s-1", "", func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestFreezeIsJoinedAgain(t *testing.T) {
	n := 0
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			fmt.Fprint(w, "event: progress\ndata: {\"stage\":\"packing\",\"percent\":5}\n\n")
			return
		}
		fmt.Fprint(w, "event: news\ndata: {}\n\nevent: done\ndata: {\"digest\":\"sha256:1\"}\n\n")
	})
	steps := 0
	env, err := c.Freeze(t.Context(), "s-1", FreezeRequest{}, func(Progress) { steps++ })
	if err != nil || env.Digest != "sha256:1" || steps != 1 || n != 2 {
		t.Errorf("%+v after %d tries with %d steps, %v", env, n, steps, err)
	}
}

func TestAFrozenRefusalIsFinal(t *testing.T) {
	n := 0
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		fmt.Fprint(w, "event: error\ndata: {\"error\":{\"code\":\"unavailable\",\"message\":\"the engine does not answer\"}}\n\n")
	})
	if _, err := c.Freeze(t.Context(), "s-1", FreezeRequest{}, nil); !errs.Is(err, errs.Unavailable) || n != 1 {
		t.Errorf("%v after %d tries", err, n)
	}
}

func TestLogWriterFails(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "text") })
	if err := c.JobLog(t.Context(), "j-1", 0, true, failing{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestNoSecretIsPrinted(t *testing.T) {
	cfg := ClientConfig{Token: "geheim"}
	request := SessionRequest{User: "alice", Env: map[string]string{"TOKEN": "geheim"}}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", cfg, "token", cfg.Token)
	b, _ := json.Marshal(cfg)
	for _, s := range []string{fmt.Sprint(cfg, request), fmt.Sprintf("%+v %#v %#v", cfg, cfg, request), string(b), log.String()} {
		if strings.Contains(s, "geheim") {
			t.Errorf("printed: %s", s)
		}
	}
}

// TestTheHubsAddress: a user who gives the Hub's address is told where the service's stands.
func TestTheHubsAddress(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-JupyterHub-Version", "6.1.1")
		http.Redirect(w, r, "/hub"+r.URL.Path, http.StatusFound)
	}))
	defer hub.Close()
	c, err := NewClient(ClientConfig{URL: hub.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.SSH(t.Context())
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || !strings.Contains(e.Message, "is a JupyterHub") || !strings.Contains(e.Remedy, hub.URL+"/services/slipway/ssh") {
		t.Errorf("%v", err)
	}
}
