package hubtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/testenv"
)

// Reply is an HTTP answer.
type Reply struct {
	Status int
	Body   []byte
	Header http.Header
	URL    string // where it came from, behind all redirects
}

// Text returns status and body for an error message.
func (r Reply) Text() string { return fmt.Sprintf("%d %s", r.Status, r.Body) }

// Server is what the Hub's API says of a user's server.
type Server struct {
	Name        string         `json:"name"`
	Pending     string         `json:"pending"`
	Ready       bool           `json:"ready"`
	Stopped     bool           `json:"stopped"`
	URL         string         `json:"url"`
	UserOptions map[string]any `json:"user_options"`
	State       map[string]any `json:"state"`
}

// Event is one step of a start, as the Hub's progress page shows it.
type Event struct {
	Progress    int    `json:"progress"`
	Message     string `json:"message"`
	HTMLMessage string `json:"html_message"`
	Ready       bool   `json:"ready"`
	Failed      bool   `json:"failed"`
}

// Call asks the Hub's REST API with the rights of an administrator.
func (h *Hub) Call(method, path string, body any) Reply { return h.As(testsToken, method, path, body) }

// As asks the Hub's REST API with a token. A Hub that does not answer gives status 0.
func (h *Hub) As(token, method, path string, body any) Reply {
	h.t.Helper()
	return h.ask(token, method, h.APIURL+path, body)
}

// Through asks a path of the Hub's proxy with a token: that of a server (Server.URL) or of a service, with the Hub's
// base path.
func (h *Hub) Through(token, method, path string, body any) Reply {
	h.t.Helper()
	return h.ask(token, method, "http://"+h.address(0)+path, body)
}

func (h *Hub) ask(token, method, address string, body any) Reply {
	h.t.Helper()
	return Ask(h.t, token, method, address, body)
}

// Ask sends a request with a token of the Hub to any address, as Send does.
func Ask(t testing.TB, token, method, address string, body any) Reply {
	t.Helper()
	req, err := http.NewRequest(method, address, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "token "+token)
	}
	return Send(t, req)
}

// Send sends a request and follows no redirect. Who does not answer gives status 0.
func Send(t testing.TB, req *http.Request) Reply {
	t.Helper()
	client := http.Client{
		Timeout:       testenv.Hang,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reply{Body: []byte(err.Error())}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, text, resp.Header, resp.Request.URL.String()}
}

// reader makes a body: nothing, a text as it is, or JSON.
func reader(t testing.TB, body any) io.Reader {
	t.Helper()
	switch body := body.(type) {
	case nil:
		return nil
	case string:
		return strings.NewReader(body)
	default:
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(text)
	}
}

// Read decodes an answer that must have this status.
func (h *Hub) Read(r Reply, status int, into any) {
	h.t.Helper()
	if r.Status != status {
		h.t.Fatalf("status %s, want %d", r.Text(), status)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		h.t.Fatalf("not what was expected: %s: %v", r.Body, err)
	}
}

// AddUser makes a user; one that is there is as good.
func (h *Hub) AddUser(user string) {
	h.t.Helper()
	if r := h.Call(http.MethodPost, userPath(user), nil); r.Status != http.StatusCreated && r.Status != http.StatusConflict {
		h.t.Fatalf("add user %s: %s", user, r.Text())
	}
}

// Token makes a token with all that the user may do.
func (h *Hub) Token(user string) string {
	h.t.Helper()
	h.AddUser(user)
	var made struct{ Token string }
	h.Read(
		h.Call(http.MethodPost, userPath(user)+"/tokens", map[string]any{"note": "a test"}), http.StatusCreated, &made,
	)
	return made.Token
}

// StartServer asks for a server; name is empty for the default one. options is the request's body.
func (h *Hub) StartServer(user, name string, options any) Reply {
	h.t.Helper()
	h.AddUser(user)
	return h.Call(http.MethodPost, serverPath(user, name), options)
}

// StopServer asks for a server's end.
func (h *Hub) StopServer(user, name string) Reply {
	h.t.Helper()
	return h.Call(http.MethodDelete, serverPath(user, name), nil)
}

// RemoveServer stops a named server and forgets it.
func (h *Hub) RemoveServer(user, name string) Reply {
	h.t.Helper()
	return h.Call(http.MethodDelete, serverPath(user, name), map[string]any{"remove": true})
}

// Server returns what the Hub knows of a server; false when it does not run, start or stop.
func (h *Hub) Server(user, name string) (Server, bool) {
	h.t.Helper()
	var model struct{ Servers map[string]Server }
	r := h.Call(http.MethodGet, userPath(user), nil)
	if r.Status == 0 || json.Unmarshal(r.Body, &model) != nil {
		return Server{}, false
	}
	s, ok := model.Servers[name]
	return s, ok
}

// WaitReady waits until a server is up; a start that fails fails the test.
func (h *Hub) WaitReady(user, name string) Server {
	h.t.Helper()
	var s Server
	h.eventually(fmt.Sprintf("server %q of %s is ready", name, user), func() bool {
		known := false
		if s, known = h.Server(user, name); !known && h.hub.runs() {
			h.t.Fatalf("server %q of %s is gone", name, user)
		}
		return s.Ready
	})
	return s
}

// WaitStopped waits until the Hub has forgotten a server.
func (h *Hub) WaitStopped(user, name string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("server %q of %s is stopped", name, user), func() bool {
		_, known := h.Server(user, name)
		return !known
	})
}

// Progress reads the events of a start until its end.
func (h *Hub) Progress(user, name string) []Event {
	h.t.Helper()
	return h.Follow(user, name)()
}

// Follow begins to read the events of a start; what it returns waits for their end.
func (h *Hub) Follow(user, name string) func() []Event {
	h.t.Helper()
	req, err := http.NewRequest(http.MethodGet, h.APIURL+serverPath(user, name)+"/progress", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+testsToken)
	var events []Event
	done := make(chan error, 1)
	go func() {
		var err error
		events, err = h.told(req)
		done <- err
	}()
	return func() []Event {
		h.t.Helper()
		if err := <-done; err != nil || len(events) == 0 {
			h.t.Fatalf("progress of %q of %s: %d events: %v", name, user, len(events), err)
		}
		return events
	}
}

// errNotStarting is what the Hub says of a server that neither starts nor has just failed to.
var errNotStarting = errors.New("the Hub says that it is not starting")

// told reads events up to the end of a start. A Hub that takes back a start that failed says meanwhile that nothing
// starts: User.stop ends "pending spawn" before the failure is known, and asks the service in between. So it is asked
// again until it has an answer, for as long as taking back may last.
func (h *Hub) told(req *http.Request) (events []Event, err error) {
	testenv.Within(testenv.Hang, func() bool {
		events, err = stream(req)
		return !errors.Is(err, errNotStarting)
	})
	return events, err
}

// stream reads events up to the one that says how it ended.
func stream(req *http.Request) (events []Event, err error) {
	resp, err := (&http.Client{Timeout: testenv.Hang}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		err := fmt.Errorf("status %d %s", resp.StatusCode, text)
		if resp.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte("is not starting")) {
			err = fmt.Errorf("%w: %w", errNotStarting, err)
		}
		return nil, err
	}
	for lines := hubapi.NewEventReader(resp.Body); ; {
		next, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		var e Event
		if err := json.Unmarshal([]byte(next.Data), &e); err != nil {
			return events, fmt.Errorf("%q: %w", next.Data, err)
		}
		if events = append(events, e); e.Ready || e.Failed {
			return events, nil
		}
	}
}

func userPath(user string) string { return "/users/" + url.PathEscape(user) }

func serverPath(user, name string) string {
	if name == "" {
		return userPath(user) + "/server"
	}
	return userPath(user) + "/servers/" + url.PathEscape(name)
}
