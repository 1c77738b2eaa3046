package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

// What an agent says of its session is cut to what can be.
func TestActivityIsCut(t *testing.T) {
	for name, test := range map[string]struct {
		said string
		want Activity
	}{
		"sound":                {`{"asked":true,"kernels":3,"busy":1,"terminals":2,"quiet":4.5,"cpu":6.25}`, Activity{Asked: true, Kernels: 3, Busy: 1, Terminals: 2, Quiet: 4.5, CPU: 6.25}},
		"memory":               {`{"asked":true,"quiet":1,"cpu":6.25,"memory":4294967296}`, Activity{Asked: true, Quiet: 1, CPU: 6.25, Memory: 4 << 30}},
		"too much memory":      {`{"asked":true,"quiet":1,"memory":9223372036854775807}`, Activity{Asked: true, Quiet: 1, Memory: maxMemory}},
		"less than no memory":  {`{"asked":true,"quiet":1,"memory":-1}`, Activity{Asked: true, Quiet: 1}},
		"nothing":              {`{}`, Activity{Quiet: -1}},
		"null":                 {`null`, Activity{Quiet: -1}},
		"newer":                {`{"asked":true,"quiet":1,"gpu":[1,2]}`, Activity{Asked: true, Quiet: 1}},
		"never":                {`{"asked":true}`, Activity{Asked: true, Quiet: -1}},
		"not asked":            {`{"asked":false,"kernels":3,"busy":1,"terminals":2,"cpu":1}`, Activity{Quiet: -1, CPU: 1}},
		"not asked, but ssh":   {`{"asked":false,"kernels":3,"ssh":2,"editors":1,"quiet":3,"cpu":1}`, Activity{SSH: 2, Editors: 1, Quiet: 3, CPU: 1}},
		"deaths":               {`{"asked":true,"quiet":1,"deaths":{"memory":2,"signal":-1,"exit":99999999}}`, Activity{Asked: true, Quiet: 1, Deaths: Deaths{Memory: 2, Exit: maxCount}}},
		"negative":             {`{"asked":true,"kernels":-3,"busy":-1,"terminals":-2,"ssh":-1,"editors":-2,"quiet":-4.5,"cpu":-6}`, Activity{Asked: true, Quiet: -1}},
		"huge":                 {`{"asked":true,"kernels":9223372036854775807,"busy":9223372036854775807,"terminals":99999999,"ssh":99999999,"editors":99999999,"quiet":1e308,"cpu":1e308}`, Activity{Asked: true, Kernels: maxCount, Busy: maxCount, Terminals: maxCount, SSH: maxCount, Editors: maxCount, Quiet: maxSeconds, CPU: maxSeconds}},
		"busier than can be":   {`{"asked":true,"kernels":1,"busy":5,"quiet":0}`, Activity{Asked: true, Kernels: 1, Busy: 1}},
		"tiny, below nothing":  {`{"asked":true,"quiet":-1e-308,"cpu":-0}`, Activity{Asked: true, Quiet: -1}},
		"said twice, as it is": {`{"asked":false,"asked":true,"quiet":2}`, Activity{Asked: true, Quiet: 2}},
	} {
		got, err := hostile(t, body(test.said)).Activity(t.Context())
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestHostileActivity(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n\r\n"
	for name, answer := range map[string]func(io.Writer){
		"no JSON":        body("hello"),
		"not a number":   body(`{"asked":true,"cpu":NaN}`),
		"infinite":       body(`{"asked":true,"cpu":1e999}`),
		"too many":       body(`{"asked":true,"kernels":1e30}`),
		"a list":         body(`[{"asked":true}]`),
		"endless":        endless(head, strings.Repeat(" ", 64<<10)),
		"endless number": endless(head+`{"cpu":1`, "0"),
		"redirect":       text("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"),
		"cut off":        text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"),
	} {
		if a, err := hostile(t, answer).Activity(t.Context()); !errs.Is(err, errs.Unavailable) || a != (Activity{}) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func FuzzActivity(f *testing.F) {
	f.Add([]byte(`{"asked":true,"kernels":3,"busy":1,"terminals":2,"quiet":4.5,"cpu":6.25}`))
	f.Add([]byte(`{"asked":true,"kernels":-1,"busy":9,"quiet":1e308}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseActivity(b)
		if err != nil {
			return
		}
		sound := a.Kernels >= 0 && a.Kernels <= maxCount && a.Busy >= 0 && a.Busy <= a.Kernels && a.Terminals >= 0 && a.Terminals <= maxCount &&
			(a.Quiet == -1 || a.Quiet >= 0) && a.Quiet <= maxSeconds && a.CPU >= 0 && a.CPU <= maxSeconds &&
			a.Memory >= 0 && a.Memory <= maxMemory
		if !sound || !a.Asked && (a.Kernels > 0 || a.Terminals > 0 || a.Quiet != -1) {
			t.Errorf("%q: %+v", b, a)
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Errorf("%+v: %v", a, err)
		}
		if b, err := parseActivity(again); b != a || err != nil {
			t.Errorf("%+v is read as %+v, %v", a, b, err)
		}
	})
}

// An agent of an earlier version has none of these, which differs from one that cannot be reached.
func TestOlderAgent(t *testing.T) {
	older := http.NewServeMux()
	older.HandleFunc("GET /status", func(http.ResponseWriter, *http.Request) {})
	c := speaking(t, older)
	for name, ask := range map[string]func() error{
		"activity": func() error { _, err := c.Activity(t.Context()); return err },
		"notify":   func() error { return c.Notify(t.Context(), "soon") },
	} {
		err := ask()
		if e, ok := errors.AsType[*errs.Error](err); !ok || e.Kind != errs.NotFound || !strings.Contains(e.Message, "older") || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNotifySays(t *testing.T) {
	const notice = "Slipway stops this \"session\" at 14:00.\n"
	var got string
	agent := http.NewServeMux()
	agent.HandleFunc("POST /notify", func(w http.ResponseWriter, r *http.Request) {
		var n Notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		got = n.Text
		w.WriteHeader(http.StatusNoContent)
	})
	if err := speaking(t, agent).Notify(t.Context(), notice); err != nil || got != notice {
		t.Errorf("%q, %v", got, err)
	}
}

// speaking is a client of an agent that answers as h does.
func speaking(t *testing.T, h http.Handler) Client {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return Client{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
	}}
}
