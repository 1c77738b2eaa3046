package kernels_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/kernels"
	"slipway/spawner"
)

var hers = spawner.Caller{User: "alice", Hub: "main"}

// patient is a site whose kernels wait for their slices, and whose requests wait with them.
func patient(t *testing.T) *site {
	s := newSite(t, func(c *kernels.Config) { c.Patience = time.Hour })
	s.slow = true
	return s
}

// ask sends a request of alice's that waits, until give up.
func (s *site) ask(path, body string) (giveUp func()) {
	ctx, cancel := context.WithCancel(s.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "token alice")
	var asking sync.WaitGroup
	asking.Go(func() {
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close()
		}
	})
	return func() { cancel(); asking.Wait() }
}

func (s *site) ended() (ids []spawner.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.deeds {
		if d.Ended != "" {
			ids = append(ids, d.Ended)
		}
	}
	return ids
}

const (
	notebook = `{"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python"}}`
	chosen   = "11111111-1111-4111-8111-111111111111"
)

// A kernel of which nobody has heard ends when the last who waits for it has given up, whoever of them has started it.
func TestKernelOfWhomAllGiveUp(t *testing.T) {
	for path, body := range map[string]string{"/api/sessions": notebook, "/api/kernels": `{"env": {"KERNEL_ID": "` + chosen + `"}}`} {
		s := patient(t)
		first := s.ask(path, body)
		s.until("the first waits", s.waits(1))
		second := s.ask(path, body)
		s.until("both wait", s.waits(2))
		first()
		s.until("one waits", s.waits(1))
		third := s.ask(path, body)
		s.until("another waits", s.waits(2))
		second()
		s.until("it alone waits", s.waits(1))
		kept := s.Kernels(hers)
		if len(kept) != 1 || len(s.ended()) > 0 {
			t.Fatalf("%s: while one waits there are %d kernels", path, len(kept))
		}
		third()
		s.until("it is gone", func() bool { return len(s.Kernels(hers)) == 0 })
		s.until("that is told", func() bool { return slices.Equal(s.ended(), []spawner.ID{kept[0].ID}) })
	}
}

// One that a websocket waits for, or of which another was told, stays when the request that has started it is given up.
func TestKernelThatSomebodyKnows(t *testing.T) {
	body := `{"env": {"KERNEL_ID": "` + chosen + `"}}`
	for what, know := range map[string]func(s *site){
		"a websocket": func(s *site) { s.open(chosen, "one"); s.until("it waits", s.waits(2)) },
		"a notebook": func(s *site) {
			s.ask("/api/sessions", `{"path": "a", "type": "x", "kernel": {"id": "`+chosen+`"}}`)
			s.until("it waits", s.waits(2))
		},
	} {
		s := patient(t)
		giveUp := s.ask("/api/kernels", body)
		s.until("it waits", s.waits(1))
		know(s)
		giveUp()
		s.until("it waits no more", s.waits(1))
		if len(s.Kernels(hers)) != 1 {
			t.Errorf("%s has lost its kernel", what)
		}
	}
}

// A tied kernel's client asks again.
func TestTiedKernelThatIsGivenUp(t *testing.T) {
	s := patient(t)
	giveUp := s.ask("/api/kernels", `{"tied": true, "env": {"KERNEL_ID": "`+chosen+`"}}`)
	s.until("it waits", s.waits(1))
	giveUp()
	s.until("it waits no more", s.waits(0))
	if len(s.Kernels(hers)) != 1 {
		t.Error("it is gone")
	}
	if s.as("alice", "GET", "/api/kernels/"+chosen, ""); s.visits != 1 {
		t.Error("nobody has noted that its client asks for it")
	}
}

// How long a kernel stays of which nobody may ever have heard: a client that has chosen the id knows it.
func TestKernelsWithoutTheirFirstClient(t *testing.T) {
	s := newSite(t, nil)
	s.as("alice", "POST", "/api/kernels", `{}`)
	s.as("alice", "POST", "/api/sessions", notebook)
	s.as("alice", "POST", "/api/kernels", `{"env": {"KERNEL_ID": "`+chosen+`"}}`)
	for i, want := range []bool{true, true, false} {
		if life := s.asked[i].Spec.Life; life.FirstClient > 0 != want || life.Away > 0 {
			t.Errorf("%d: %+v", i, life)
		}
	}
}

// Two windows give one notebook another kernel at once: in the end it has one, and no other is left.
func TestTwoChangesOfOneNotebook(t *testing.T) {
	s := newSite(t, nil)
	first := s.session("POST", "/api/sessions", notebook, 201)
	var asking sync.WaitGroup
	for range 5 {
		asking.Go(func() { s.as("alice", "PATCH", "/api/sessions/"+first.ID, `{"kernel": {"name": "python"}}`) })
	}
	asking.Wait()
	left := s.Kernels(hers)
	if len(left) != 1 || len(left[0].Notebooks) != 1 || left[0].Notebooks[0].ID != first.ID {
		t.Errorf("%d kernels: %+v", len(left), left)
	}
	if ended := s.ended(); len(ended) != 5 || ended[0] != spawner.ID("s-"+first.Kernel.ID) {
		t.Errorf("told of %d that ended: %v", len(ended), ended)
	}
}

// A notebook whose session is ended while it gets another kernel has none then.
func TestNotebookThatIsClosedMeanwhile(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Patience = time.Hour })
	first := s.session("POST", "/api/sessions", notebook, 201)
	s.mu.Lock()
	s.slow = true
	s.mu.Unlock()
	changed := make(chan answer, 1)
	go func() { changed <- s.as("alice", "PATCH", "/api/sessions/"+first.ID, `{"kernel": {"name": "python"}}`) }()
	s.until("the new kernel waits", s.waits(1))
	s.session("DELETE", "/api/sessions/"+first.ID, "", 204)
	s.become(func(w *spawner.Workload) { w.Phase = spawner.Running })
	if a := <-changed; a.status != 409 || len(s.Kernels(hers)) > 0 {
		t.Errorf("%+v, and %d kernels", a, len(s.Kernels(hers)))
	}
}

// What a notebook cannot be called is said before a kernel is started for it.
func TestNamesOfNotebooks(t *testing.T) {
	s := newSite(t, nil)
	first := s.session("POST", "/api/sessions", notebook, 201)
	for _, bad := range []string{`"path": "` + strings.Repeat("x", 1025) + `"`, `"path": "a\u0000b"`, `"path": "b", "name": "a\nb"`, `"path": "b", "type": "` + strings.Repeat("x", 65) + `"`} {
		if a := s.as("alice", "POST", "/api/sessions", `{"type": "notebook", `+bad+`}`); a.status != 400 {
			t.Errorf("%.40s: %+v", bad, a)
		}
		if a := s.as("alice", "PATCH", "/api/sessions/"+first.ID, `{"kernel": {"name": "python"}, `+bad+`}`); a.status != 400 {
			t.Errorf("%.40s as a change: %+v", bad, a)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("%d kernels were started", len(s.asked))
	}
}
