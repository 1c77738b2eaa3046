package feeds

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &recorder{header: http.Header{}}
		out := StartStream(t.Context(), w)
		time.Sleep(3*keepAlive + time.Second)
		out.End()
		if n := strings.Count(w.String(), ": alive\n\n"); n != 3 {
			t.Errorf("%d keep-alives in %q", n, w)
		}
	})
}

// recorder is a ResponseWriter in memory.
type recorder struct {
	bytes.Buffer
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(int) {}
