package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
)

func captured(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "jupyter", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a Jupyter Server said that had a computing kernel, one that nobody had connected to, and a terminal.
func TestParseScene(t *testing.T) {
	got, err := parseScene([]byte(captured(t, "kernels")), []byte(captured(t, "terminals")))
	want := scene{kernels: 2, busy: 1, terminals: 1, last: time.Date(2026, 11, 21, 7, 21, 57, 955155000, time.UTC)}
	if got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", captured(t, "forbidden"), `[1]`, `[{"execution_state": 1}]`} {
		if s, err := parseScene([]byte(bad), []byte("[]")); err == nil {
			t.Errorf("kernels %q: %+v", bad, s)
		}
		if s, err := parseScene([]byte("[]"), []byte(bad)); err == nil {
			t.Errorf("terminals %q: %+v", bad, s)
		}
	}
	for _, odd := range []string{`[{}]`, `[{"last_activity": null}]`, `[{"last_activity": "yesterday", "execution_state": "dead", "more": {}}]`, `[null]`} {
		if s, err := parseScene([]byte(odd), []byte("null")); s != (scene{kernels: 1}) || err != nil {
			t.Errorf("kernels %q: %+v, %v", odd, s, err)
		}
	}
}

func FuzzParseScene(f *testing.F) {
	f.Add([]byte(captured(f, "kernels")), []byte(captured(f, "terminals")))
	f.Add([]byte(captured(f, "forbidden")), []byte("[]"))
	f.Fuzz(func(t *testing.T, kernels, terminals []byte) {
		s, err := parseScene(kernels, terminals)
		if s.busy > s.kernels || s.busy < 0 || s.terminals < 0 || err != nil && s != (scene{}) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// server plays a Jupyter Server: it answers a path, without its query, with a status and a body.
type server func(r *http.Request) (int, string)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := s(r)
	if status == 0 {
		return nil, errors.New(body)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func lookAt(s server) *lookout {
	j := &jupyter{base: "http://127.0.0.1:1/user/a/", token: "hush", trip: s}
	return newLookout(func() *jupyter { return j }, func() (int, time.Time) { return 0, time.Time{} }, func() float64 { return 1.5 }, slog.New(slog.DiscardHandler))
}

func TestLookout(t *testing.T) {
	const idle = `[{"execution_state": "idle", "last_activity": "%s"}]`
	at := func(before time.Duration) string {
		return time.Now().Add(-before).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	nothing := control.Activity{Quiet: -1, CPU: 1.5}
	for name, test := range map[string]struct {
		kernels, terminals       func() string
		kernelStatus, termStatus int
		want                     control.Activity
	}{
		"idle": {
			kernels: func() string { return fmt.Sprintf(idle, at(90*time.Second)) }, terminals: func() string { return fmt.Sprintf(idle, at(time.Minute)) },
			want: control.Activity{Asked: true, Kernels: 1, Terminals: 1, Quiet: 60, CPU: 1.5},
		},
		"the clock of its activity is ahead": {
			kernels: func() string { return fmt.Sprintf(idle, at(-time.Hour)) },
			want:    control.Activity{Asked: true, Kernels: 1, CPU: 1.5},
		},
		"nothing there":         {want: control.Activity{Asked: true, Quiet: -1, CPU: 1.5}},
		"no terminals":          {termStatus: 404, terminals: func() string { return "<html>" }, want: control.Activity{Asked: true, Quiet: -1, CPU: 1.5}},
		"terminals fail":        {termStatus: 500, want: nothing},
		"terminals are garbage": {terminals: func() string { return "<html>" }, want: nothing},
		"forbidden":             {kernelStatus: 403, want: nothing},
		"no kernels":            {kernelStatus: 404, want: nothing},
		"redirect":              {kernelStatus: 302, want: nothing},
		"garbage":               {kernels: func() string { return "\x00" }, want: nothing},
		"too much":              {kernels: func() string { return "[" + strings.Repeat(" ", maxAnswer) + "]" }, want: nothing},
		"down":                  {kernelStatus: -1, want: nothing},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := lookAt(func(r *http.Request) (int, string) {
					status, body := test.kernelStatus, test.kernels
					if strings.HasSuffix(r.URL.Path, "terminals") {
						status, body = test.termStatus, test.terminals
					}
					if body == nil {
						body = func() string { return "[]" }
					}
					if status == 0 {
						status = 200
					}
					return max(status, 0), body()
				})
				if diff := cmp.Diff(test.want, l.activity(t.Context())); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestLookoutAsksAsItShould(t *testing.T) {
	var asked []string
	l := lookAt(func(r *http.Request) (int, string) {
		asked = append(asked, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header))
		return 200, "[]"
	})
	l.activity(t.Context())
	want := []string{
		"GET http://127.0.0.1:1/user/a/api/kernels?no_track_activity=1 map[Authorization:[token hush]]",
		"GET http://127.0.0.1:1/user/a/api/terminals?no_track_activity=1 map[Authorization:[token hush]]",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}

// An app that hangs is given up in time, and many who ask at once cost it one question.
func TestLookoutIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		l := lookAt(func(r *http.Request) (int, string) {
			asked.Add(1)
			<-r.Context().Done()
			return 0, "cut off"
		})
		start := time.Now()
		for range 20 {
			go func() {
				if a := l.activity(context.WithoutCancel(t.Context())); a.Asked {
					t.Error("asked")
				}
			}()
		}
		time.Sleep(askTime) // of the bubble
		synctest.Wait()
		if took := time.Since(start); took != askTime || asked.Load() != 1 {
			t.Errorf("asked %d times in %v", asked.Load(), took)
		}
		l.activity(t.Context())
		time.Sleep(fresh) // of the bubble
		go l.activity(t.Context())
		if synctest.Wait(); asked.Load() != 2 {
			t.Errorf("asked %d times, the last after an answer was old", asked.Load())
		}
		time.Sleep(askTime) // of the bubble
	})
}

// What was last done stays known when its kernel is closed, and is not undone by an older time.
func TestQuietOutlivesKernels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stamp := func(ago time.Duration) string {
			return fmt.Sprintf(`[{"execution_state": "idle", "last_activity": %q}]`, time.Now().Add(-ago).UTC().Format(time.RFC3339Nano))
		}
		kernels := "[]"
		l := lookAt(func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "terminals") {
				return 404, ""
			}
			return 200, kernels
		})
		for i, step := range []struct {
			kernels string
			want    float64
		}{
			{"[]", -1},
			{stamp(10 * time.Second), 10},
			{"[]", 10},
			{stamp(time.Hour), 10}, // as after the clock was put forward
			{stamp(time.Second), 1},
		} {
			l.at = time.Time{}
			if kernels = step.kernels; l.activity(t.Context()).Quiet != step.want {
				t.Errorf("step %d: quiet for %v s, want %v", i, l.latest.Quiet, step.want)
			}
		}
		time.Sleep(time.Minute) // of the bubble
		if a := l.activity(t.Context()); a.Quiet != 61 {
			t.Errorf("a minute later: quiet for %v s", a.Quiet)
		}
	})
}

// A notice on a terminal is no activity of the user's; what was done before and after it is.
func TestNoticesAreNoActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		l := lookAt(func(*http.Request) (int, string) {
			return 200, fmt.Sprintf(`[{"execution_state": "idle", "last_activity": %q}]`, last.UTC().Format(time.RFC3339Nano))
		})
		quiet := func(after time.Duration, want float64) {
			t.Helper()
			time.Sleep(after) // of the bubble
			if got := l.activity(t.Context()).Quiet; got != want {
				t.Errorf("quiet for %v s, want %v", got, want)
			}
		}
		last = time.Now()
		quiet(time.Hour, 3600)
		last = time.Now()
		quiet(time.Minute, 60)
		l.speak(t.Context(), func() { last = time.Now().Add(time.Second / 2) })
		quiet(time.Minute, 120)
		last = time.Now()
		quiet(time.Minute, 60)
		time.Sleep(time.Minute) // of the bubble
		last = time.Now()
		time.Sleep(fresh) // of the bubble
		l.speak(t.Context(), func() { last = time.Now() })
		quiet(fresh, 4)
	})
}

// The whole way: service, agent, app.
func TestActivityOfAnApp(t *testing.T) {
	r := newRig(t)
	app := play("web", control.Env{
		"JUPYTERHUB_SERVICE_PREFIX": "/user/alice/", "JUPYTERHUB_API_TOKEN": "hush",
		"kernels": captured(t, "kernels"), "terminals": captured(t, "terminals"),
	})
	app.HTTP, app.Jupyter, app.Ready = true, true, "/user/alice/"
	r.launch(t, app, control.Ready)
	a, err := r.client.Activity(t.Context())
	if err != nil || !a.Asked || a.Kernels != 2 || a.Busy != 1 || a.Terminals != 1 || a.Quiet < 0 {
		t.Errorf("%+v, %v", a, err)
	}
}
