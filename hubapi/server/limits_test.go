package server

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/hubapi"
)

// endless is a body of one long string, so long as it is read.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'A'
	}
	e.read += len(b)
	return len(b), nil
}

// TestLargeBodiesTakeNoMemory: what is announced or sent beyond a mebibyte is refused, and not kept until it is whole.
func TestLargeBodiesTakeNoMemory(t *testing.T) {
	const size = 90 << 20
	h := start(t, newFake(), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			body := &endless{}
			content := io.MultiReader(strings.NewReader(`{"files": {"a": "`), io.LimitReader(body, size), strings.NewReader(`"}}`))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.front.URL+"/api/v1/jobs", content)
			if err != nil {
				t.Error(err)
				return
			}
			if n%2 == 0 {
				r.ContentLength = size + 20
			}
			r.Header.Set("Authorization", "Bearer alice-token")
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			if err != nil {
				t.Logf("the connection was cut: %v", err) // as it may be while the body is being sent
				return
			}
			defer resp.Body.Close()
			said, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(said), `"field":"body"`) ||
				!strings.Contains(string(said), "1 MiB") || !strings.Contains(string(said), "/blobs/") {
				t.Errorf("%d %s", resp.StatusCode, said)
			}
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 100<<20 {
		t.Errorf("8 bodies of 90 MiB took %d MiB", grown>>20)
	}
}

// TestSlowBodiesAreToldToWait: bodies that never end take a user's share, and not that of others.
func TestSlowBodiesAreToldToWait(t *testing.T) {
	engine := newFake()
	h := start(t, engine, nil)
	slow := func() {
		c, err := net.Dial("tcp", h.front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice-token\r\nTransfer-Encoding: chunked\r\n\r\n")
	}
	for range 16 { // as many as a user may have under way
		slow()
	}
	ask := func(token string) (*http.Response, string) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, h.front.URL+"/api/v1/jobs", strings.NewReader(`{"nothing": 1}`))
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		said, _ := io.ReadAll(resp.Body)
		return resp, string(said)
	}
	deadline := time.Now().Add(time.Minute)
	resp, said := ask("alice-token")
	for resp.StatusCode != http.StatusTooManyRequests && time.Now().Before(deadline) { // until all of them are on their way
		slow() // for one that found no room because this asked at that moment
		resp, said = ask("alice-token")
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(said, `"busy"`) {
		t.Errorf("alice: %d %s", resp.StatusCode, said)
	}
	if resp, said := ask("bob-token"); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("bob: %d %s", resp.StatusCode, said)
	}
}

// TestPointsOfTheStore: points that are too many for a request come from the store.
func TestPointsOfTheStore(t *testing.T) {
	engine := newFake()
	engine.stored = map[string]string{"sha256:p": `[{"parameters": {"k": "1"}}, {"parameters": {"k": "2"}}]`, "sha256:bad": `{"k"`, "sha256:huge": strings.Repeat(" ", 8<<20+1)}
	h := start(t, engine, nil)
	body := hubapi.JobRequest{
		JobSpec: hubapi.JobSpec{Environment: "e", Argv: []string{"true"}}, PointsBlob: "sha256:p", RequestID: "r",
	}
	status, said := h.post(t, "alice-token", "/jobs", inJSON(t, body))
	if status != 202 || len(engine.points) != 2 {
		t.Errorf("%d %s: %d points", status, said, len(engine.points))
	}
	body.PointsBlob = "sha256:huge"
	if status, said = h.post(t, "alice-token", "/jobs", inJSON(t, body)); status != 422 || !strings.Contains(said, "more than 8388608 bytes") {
		t.Errorf("%d %s", status, said)
	}
	body.PointsBlob = "sha256:bad"
	if status, said = h.post(t, "alice-token", "/jobs", inJSON(t, body)); status != 422 || !strings.Contains(said, "points_blob") {
		t.Errorf("%d %s", status, said)
	}
	body.Points = []hubapi.Point{{}}
	if status, said = h.post(t, "alice-token", "/jobs", inJSON(t, body)); status != 422 {
		t.Errorf("%d %s", status, said)
	}
}

// TestBrokenOffIsNoFault: a client that goes away in the middle of its body is no internal error, and changes nothing.
func TestBrokenOffIsNoFault(t *testing.T) {
	engine := newFake()
	h := start(t, engine, nil)
	c, err := net.Dial("tcp", h.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "PUT /api/v1/blobs/sha256:0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice-token\r\nContent-Length: 1000\r\n\r\nhalf")
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = http.ReadResponse(bufio.NewReader(c), nil)
	_ = c.Close()
	h.Web.End()
	logged := h.logged.String()
	if strings.Contains(logged, "level=ERROR") || strings.Contains(logged, "audit=") || !strings.Contains(logged, "status=499") {
		t.Errorf("logged:\n%s", logged)
	}
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
