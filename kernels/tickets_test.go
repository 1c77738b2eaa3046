package kernels_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"slipway/kernels"
	"slipway/spawner"
)

// knock opens a websocket as Jupyter's GatewayKernelClient does, with nothing but the id, and gives the status of the
// answer.
func (s *site) knock(id string, header http.Header, query string) int {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), long)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, s.url+"/api/kernels/"+id+"/channels"+query, &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		s.Cleanup(func() { _ = ws.CloseNow() })
	}
	if res == nil {
		s.Fatal(err)
	}
	return res.StatusCode
}

func TestTicket(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	for _, bad := range []int{s.knock(id, http.Header{"Authorization": {"token eve"}}, ""), s.knock(id, http.Header{"Authorization": {"token "}}, ""), s.knock(id, nil, "?token="), s.knock("no-such-id", nil, "")} {
		if bad != 401 {
			t.Errorf("a wrong token, or a wrong id: %d", bad)
		}
	}
	if got := s.as("", "GET", "/api/kernels/"+id, "").status; got != 401 {
		t.Errorf("it opens more than a websocket: %d", got)
	}
	if got := s.knock(id, nil, ""); got != 101 {
		t.Errorf("with the id alone: %d", got)
	}
	s.mu.Lock()
	let := 0
	for _, d := range s.deeds {
		if d.By == (spawner.Caller{User: "alice", Hub: "main"}) {
			let++
		}
	}
	s.mu.Unlock()
	if let != 1 {
		t.Errorf("it was told %d times", let)
	}
	if got := s.knock(id, nil, ""); got != 401 {
		t.Errorf("and once more: %d", got)
	}
}

// Her own browser has it, and the id is a name as any other.
func TestTicketOfAKernelWithAClient(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	s.open(id, "one")
	if got := s.knock(id, nil, ""); got != 401 {
		t.Errorf("%d", got)
	}
}

func TestTicketsOfSessions(t *testing.T) {
	s := newSite(t, nil)
	body := `{"path": "a", "type": "notebook"}`
	v := s.session("POST", "/api/sessions", body, 201)
	if got := s.knock(v.Kernel.ID, nil, ""); got != 101 {
		t.Errorf("a new one: %d", got)
	}
	s.session("POST", "/api/sessions", body, 201)
	if got := s.knock(v.Kernel.ID, nil, ""); got != 401 {
		t.Errorf("found again: %d", got)
	}
}

func TestNoTickets(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.NoTickets = true })
	if got := s.knock(s.start(), nil, ""); got != 401 {
		t.Errorf("%d", got)
	}
}

func TestTicketOfAnIDThatWasChosen(t *testing.T) {
	s := newSite(t, nil)
	id := strings.Repeat("0", 8) + "-0000-0000-0000-" + strings.Repeat("0", 12)
	a := s.as("alice", "POST", "/api/kernels", `{"env": {"KERNEL_ID": "`+id+`"}}`)
	if got := s.knock(a.field("id"), nil, ""); a.status != 201 || a.field("id") != id || got != 401 {
		t.Errorf("%+v: %d", a, got)
	}
}

func TestTicketThatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tickets := kernels.NewTickets()
		tickets.Issue("a", spawner.Caller{User: "alice"})
		tickets.Issue("c", spawner.Caller{User: "alice", Workload: "s-1"})
		time.Sleep(59 * time.Second)
		tickets.Issue("b", spawner.Caller{User: "alice"})
		if _, ok := tickets.Take("b"); !ok {
			t.Error("a new one is nothing")
		}
		time.Sleep(2 * time.Second)
		for _, id := range []string{"a", "b", "c"} {
			if _, ok := tickets.Take(id); ok {
				t.Errorf("%s lets in", id)
			}
		}
	})
}
