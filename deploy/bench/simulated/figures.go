package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"slipway/hubapi"
	"slipway/internal/bench"
)

// figures are what the service is measured by.
type figures struct {
	Simulated bool                    `json:"simulated"` // always: no container and no agent is behind these numbers
	Answers   map[string]bench.Spread `json:"answers"`   // by what was asked: start, poll, stop, other, visit
	Held      int64                   `json:"held"`      // requests that wait by intent, so far: long polls and streams
	CPU       float64                 `json:"cpu_s"`
	RSS       int64                   `json:"rss"`
	PeakRSS   int64                   `json:"peak_rss"`
}

// figuresPath is the one route that the real service does not have.
const figuresPath = "/simulated/figures"

// meter measures a handler from the outside.
type meter struct {
	next http.Handler
	held atomic.Int64
	mu   sync.Mutex // guards took
	took map[string]*bench.Times
}

func newMeter(next http.Handler) *meter { return &meter{next: next, took: map[string]*bench.Times{}} }

// ServeHTTP measures from the handler's call, when the request's headers have been read, to its return, less the time
// for which it waits for the request's body: a Hub that is busy sends that long after the headers.
func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == figuresPath {
		m.show(w, r)
		return
	}
	w.Header().Set("X-Slipway-Simulated", "yes")
	sort := sortOf(r.Method, r.URL.Path)
	if sort == "held" {
		m.held.Add(1)
		m.next.ServeHTTP(w, r)
		return
	}
	body := &slowBody{ReadCloser: r.Body}
	r.Body = body
	began := time.Now()
	m.next.ServeHTTP(w, r)
	m.times(sort).Add(time.Since(began) - body.waited)
}

// slowBody knows how long its reader has waited. One goroutine reads a request's body.
type slowBody struct {
	io.ReadCloser
	waited time.Duration
}

// Read reads on.
func (b *slowBody) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(began)
	return n, err
}

// sortOf tells what a request asks for.
func sortOf(method, path string) string {
	rest, own := strings.CutPrefix(path, hubapi.Base+"/sessions")
	switch _, what, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/"); {
	case !strings.HasPrefix(path, hubapi.Base):
		return "visit"
	case !own:
		return "other"
	case what == "wait" || what == "events":
		return "held"
	case what == "stop":
		return "stop"
	case rest == "" && method == http.MethodPost:
		return "start"
	case method == http.MethodGet && what == "":
		return "poll"
	default:
		return "other"
	}
}

func (m *meter) times(sort string) *bench.Times {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.took[sort] == nil {
		m.took[sort] = &bench.Times{}
	}
	return m.took[sort]
}

// show gives the figures; with ?reset the times begin anew.
func (m *meter) show(w http.ResponseWriter, r *http.Request) {
	f, err := m.figures()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.URL.Query().Has("reset") {
		m.mu.Lock()
		clear(m.took)
		m.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(f) // the reader has gone
}

func (m *meter) figures() (figures, error) {
	f := figures{Simulated: true, Answers: map[string]bench.Spread{}, Held: m.held.Load()}
	m.mu.Lock()
	for sort, t := range m.took {
		f.Answers[sort] = t.Spread()
	}
	m.mu.Unlock()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return f, fmt.Errorf("ask for the CPU time: %w", err)
	}
	f.CPU = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	var err error
	f.RSS, f.PeakRSS, err = memory()
	return f, err
}

// memory returns the resident memory of this process in bytes, now and at its highest.
func memory() (now, peak int64, err error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kib << 10
		case "VmHWM":
			peak = kib << 10
		}
	}
	return now, peak, nil
}
