package cli_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
)

// stubLogins gives alice access tokens, of which each confirmed login makes one. How a login ends is told by the hub
// that is asked for: main is confirmed at its third look, the others are what they say.
type stubLogins struct {
	mu     sync.Mutex
	looks  map[string]int
	issued int
	tokens map[string]string // their ids
}

func (s *stubLogins) begin(w http.ResponseWriter, r *http.Request) {
	var req hubapi.DeviceLoginRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !strings.HasPrefix(req.Program, "slipway ") || req.Computer == "" {
		refuse(w, 422, "invalid", "not what was expected", "")
		return
	}
	if req.Hub == "" {
		req.Hub = "main"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks["secret-"+req.Hub] = 0
	answer(w, hubapi.DeviceLogin{
		ID: "secret-" + req.Hub, Code: "BCDF-GHJK", URL: "https://hub.example.org/services/slipway/login", Interval: 1,
		Expires: time.Now().Add(10 * time.Minute),
	})
}

func (s *stubLogins) poll(w http.ResponseWriter, r *http.Request) {
	var req hubapi.DeviceLoginPoll
	_ = json.NewDecoder(r.Body).Decode(&req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks[req.ID]++
	out := hubapi.DeviceLoginState{Interval: 1}
	switch n := s.looks[req.ID]; {
	case req.ID == "secret-refused":
		out.Status = hubapi.LoginDenied
	case req.ID == "secret-late":
		out.Status = hubapi.LoginExpired
	case req.ID == "secret-new":
		out.Status = "a status of a newer service"
	case n == 1:
		out.Status = hubapi.LoginPending
	case n == 2:
		out.Status = hubapi.LoginSlowDown
	default:
		s.issued++
		id := "login" + strconv.Itoa(s.issued)
		out.Status, out.Token = hubapi.LoginApproved, "slipway_of_"+id
		s.tokens[out.Token] = id
		out.Access = &hubapi.AccessToken{ID: id, Hub: "main", User: "alice", Expires: time.Now().Add(30 * 24 * time.Hour)}
	}
	answer(w, out)
}

// revoke ends a token for who holds it.
func (s *stubLogins) revoke(w http.ResponseWriter, r *http.Request, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[token] != r.PathValue("id") {
		refuse(w, 404, "not_found", "there is no such token", "")
		return
	}
	delete(s.tokens, token)
	w.WriteHeader(204)
}

func (s *stubLogins) holds(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[token] != ""
}
