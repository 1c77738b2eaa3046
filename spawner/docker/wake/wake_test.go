package wake

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
)

// engine answers requests to wake in turn; the last answer stands.
func engine(t *testing.T, answers ...int) (host string, asked *[]string) {
	host, asked = filepath.Join(t.TempDir(), "engine.sock"), new([]string)
	l, err := net.Listen("unix", host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := answers[min(len(*asked), len(answers)-1)]
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(code)
		if code == http.StatusInternalServerError {
			_, _ = fmt.Fprint(w, `{"message":"Container c is not paused"}`)
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return host, asked
}

// TestWatch: nothing is done as long as the service lives; then the container is woken, also if the engine pauses it
// only now.
func TestWatch(t *testing.T) {
	const no = http.StatusInternalServerError // it is not paused
	for name, test := range map[string]struct {
		answers []int
		asked   int
	}{
		"at once":     {[]int{http.StatusNoContent}, 1},
		"paused late": {[]int{no, no, http.StatusNoContent}, 3},
		"removed":     {[]int{http.StatusNotFound}, 1},
		"goes on":     {[]int{no}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, asked := engine(t, test.answers...)
			r, w := io.Pipe()
			over := make(chan error)
			go func() { over <- Watch(t.Context(), host, "c", r) }()
			if _, err := w.Write([]byte("x")); err != nil || len(*asked) > 0 {
				t.Errorf("asked %v while the service lives (%v)", *asked, err)
			}
			_ = w.Close()
			if err := <-over; err != nil {
				t.Error(err)
			}
			if n := len(*asked); n == 0 || test.asked > 0 && n != test.asked || slices.ContainsFunc(*asked, func(s string) bool { return s != "POST /containers/c/unpause" }) {
				t.Errorf("asked %v, want it %d times", *asked, test.asked)
			}
		})
	}
}
