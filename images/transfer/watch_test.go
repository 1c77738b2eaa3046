package transfer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/backoff"
	"slipway/internal/errs"
)

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slow gives its bytes one by one, each after a while; then it hangs until the request is given up.
type slow struct {
	ctx   context.Context
	each  time.Duration
	bytes int
}

func (s *slow) Read(p []byte) (int, error) {
	d := s.each
	if s.bytes == 0 {
		d = time.Hour
	}
	select {
	case <-time.After(d):
		s.bytes--
		p[0] = 'x'
		return 1, nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func TestASilentPeerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchful{trip(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil { // takes the body slowly, and never answers
				for buf := make([]byte, 1); ; time.Sleep(50 * time.Second) {
					if _, err := r.Body.Read(buf); err == io.EOF {
						break
					}
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(&slow{r.Context(), 50 * time.Second, 10})}, nil
		}), time.Minute}
		begin := time.Now()
		r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://x/", strings.NewReader("12345"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.RoundTrip(r); !errors.Is(err, errSilent) || time.Since(begin) != 5*50*time.Second+time.Minute {
			t.Errorf("no answer: %v after %s", err, time.Since(begin))
		}
		begin = time.Now()
		r, _ = http.NewRequestWithContext(t.Context(), "GET", "http://x/", nil)
		resp, err := w.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // nobody reads: that is no silence of the peer
		data, err := io.ReadAll(resp.Body)
		if !errors.Is(err, errSilent) || len(data) != 10 || time.Since(begin) != time.Hour+10*50*time.Second+time.Minute {
			t.Errorf("%d bytes: %v after %s", len(data), err, time.Since(begin))
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := client(t, func(cfg *Config) { cfg.Attempts = 9 })
		c.wait = wait
		begin, calls := time.Now(), 0
		err := c.persist(t.Context(), func() error { calls++; return cut("try", io.ErrUnexpectedEOF) })
		if d := time.Since(begin); !errs.Is(err, errs.Unavailable) || calls != 9 || d < 45*time.Second || d > 95*time.Second {
			t.Errorf("%d calls in %s: %v", calls, d, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := c.persist(ctx, func() error { return cut("try", io.ErrUnexpectedEOF) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled: %v", err)
		}
	})
	for failed, want := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 5: 8 * time.Second, 8: longestWait, 1000: longestWait} {
		least := backoff.Delay(firstWait, longestWait, failed, 0)
		most := backoff.Delay(firstWait, longestWait, failed, 1)
		if least != want/2 || most != want {
			t.Errorf("after %d: %s to %s", failed, least, most)
		}
	}
}

// TestProgressRenewsPatience: only failures without progress between them are counted.
func TestProgressRenewsPatience(t *testing.T) {
	c, _ := client(t, func(cfg *Config) { cfg.Attempts = 3 })
	var p patience
	for i := range 20 {
		if err := c.again(t.Context(), &p, cut("x", io.ErrUnexpectedEOF), int64(i)*worthwhile); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
	for range 2 {
		_ = c.again(t.Context(), &p, cut("x", io.ErrUnexpectedEOF), 7)
	}
	if err := c.again(t.Context(), &p, cut("x", io.ErrUnexpectedEOF), 7); err == nil {
		t.Error("it goes on without progress")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": -1, "soon": -1, "-5": -1, "0": 0, "120": 2 * time.Minute, "99999999999999": 1 << 30 * time.Second,
		"Sun, 01 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Nov 2026 11:00:30 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestArrived(t *testing.T) {
	for text, want := range map[string]int64{"0-0": -1, "": -1, "0-1048575": 1 << 20, "bytes=0-9": 10, "5-9": -1, "0--3": -1, "0-x": -1, "9": -1, "0-9223372036854775807": -1} {
		if got, ok := arrived(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

func TestParseReference(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string]Reference{
		"ghcr.io/alice/ana:v1":      {Host: "ghcr.io", Repository: "alice/ana", Tag: "v1"},
		"oras://localhost:5000/ana": {Host: "localhost:5000", Repository: "ana", Tag: "latest"},
		"h.example/a/b/c@" + digest: {Host: "h.example", Repository: "a/b/c", Digest: digest},
		"h.example/a:v1@" + digest:  {Host: "h.example", Repository: "a", Digest: digest},
	} {
		got, err := ParseReference("from", text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseReference("from", got.String()); err != nil || again != got {
			t.Errorf("%q becomes %+v, %v", got, again, err)
		}
	}
	for _, bad := range []string{"", "ana", "ana:v1", "h.example/Alice/ana:v1", "h.example/a:-", "h.example/a@sha256:12", "h.example/a@sha512:" + strings.Repeat("ab", 64), "http://h/a:v1", "h.example/../a:v1"} {
		if got, err := ParseReference("from", bad); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	f.Add("ghcr.io/alice/ana:v1")
	f.Add("[::1]:5000/a@sha256:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReference("from", text)
		if err != nil {
			return
		}
		if again, err := ParseReference("from", r.String()); err != nil || again != r {
			t.Errorf("%q is %+v, which is %+v: %v", text, r, again, err)
		}
	})
}
