package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// told is one report of a pull's progress.
type told struct {
	message string
	percent int
}

// listener keeps what a start has told.
type listener struct {
	mu   sync.Mutex
	told []told
}

func (l *listener) hear(message string, percent int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, told{message, percent})
}

// megabytes returns how much had been pulled, by each message that said so.
func (l *listener) megabytes() (all []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	form := regexp.MustCompile(`^Pulling image \S+: ([\d.]+) ([kM]?B) of [\d.]+ MB( or more)?, \d+ %$`)
	for _, t := range l.told {
		if m := form.FindStringSubmatch(t.message); m != nil {
			n, _ := strconv.ParseFloat(m[1], 64)
			all = append(all, int(n*map[string]float64{"MB": 1}[m[2]]))
		}
	}
	return all
}

// pulling returns a launch of an image that the engine does not have, and what its start tells.
func (w world) pulling(t *testing.T, ref string) (spawner.Launch, *listener) {
	l, heard := w.launch(t, ""), &listener{}
	l.Spec.Image, l.Report = ref, heard.hear
	t.Cleanup(func() { w.dropImage(t, ref) })
	return l, heard
}

// TestPulls pulls from a registry, which is slow where that is to be seen.
func TestPulls(t *testing.T) {
	w, s := newWorld(t), newShop(t)
	w.Backend = w.again(t, Config{Instance: w.cfg.Instance, Pull: true})
	tiny, err := io.ReadAll(tinyTree(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("progress", func(t *testing.T) {
		s.set(10*time.Millisecond, nil)
		l, heard := w.pulling(t, s.push(t, "a/progress", tiny, noise(t, 8<<20), noise(t, 3<<20)))
		w.up(t, l)
		w.sees(t, l.ID, spawner.Up)
		checkProgress(t, heard)
	})
	t.Run("shared", func(t *testing.T) {
		s.set(5*time.Millisecond, nil)
		ref := s.push(t, "a/shared", tiny, noise(t, 6<<20))
		var group sync.WaitGroup
		for range 3 {
			l, heard := w.pulling(t, ref)
			group.Go(func() {
				if err := w.Start(t.Context(), l); err != nil || len(heard.megabytes()) == 0 {
					t.Errorf("Start = %v, told %v", err, heard.told)
				}
			})
		}
		group.Wait()
		if all, most := s.gets("/manifests/"); all > 2 || most > 1 {
			t.Errorf("the manifest was asked for %d times", all)
		}
		if _, most := s.gets("/blobs/"); most != 1 {
			t.Errorf("a layer was asked for %d times", most)
		}
	})
	t.Run("broken off", func(t *testing.T) { breakOff(t, w, s, tiny) })
	t.Run("faults", func(t *testing.T) { pullFaults(t, w, s) })
}

// checkProgress checks that megabytes and percentage have grown step by step.
func checkProgress(t *testing.T, heard *listener) {
	t.Helper()
	seen, last, all := map[int]bool{}, -1, heard.megabytes()
	for i, n := range all {
		seen[n] = true
		if i > 0 && n < all[i-1] {
			t.Errorf("it went back from %d to %d MB", all[i-1], n)
		}
	}
	for _, m := range heard.told {
		if m.percent < last {
			t.Errorf("%q: %d after %d", m.message, m.percent, last)
		}
		last = m.percent
	}
	if end := heard.told[len(heard.told)-1]; len(seen) < 4 || end.percent != 100 || !strings.HasPrefix(end.message, "Unpacking image ") {
		t.Errorf("told %v", heard.told)
	}
}

// breakOff cancels a start while its image comes: that ends the download at once, and the next start gets the image. So
// it is too when the service is killed, for then the engine loses its client in the same way.
func breakOff(t *testing.T, w world, s *shop, tiny []byte) {
	s.set(20*time.Millisecond, nil)
	ref := s.push(t, "a/broken", tiny, noise(t, 12<<20))
	l, heard := w.pulling(t, ref)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- w.Start(ctx, l) }()
	until(t, "some of it is here", func() bool { got := heard.megabytes(); return len(got) > 0 && got[len(got)-1] >= 3 })
	canceled := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v, want canceled", err)
	}
	if took := time.Since(canceled); took > 2*time.Second {
		t.Errorf("it took %v to end", took)
	}
	until(t, "the registry sends no more", func() bool { return s.busy() == 0 })
	w.sees(t, l.ID, spawner.Absent)
	s.set(0, nil)
	w.up(t, l)
	w.sees(t, l.ID, spawner.Up)
}

// pullFaults has a pull fail in every way.
func pullFaults(t *testing.T, w world, s *shop) {
	refuse := func(status int, header, body, part string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) {
				return false
			}
			if name, value, ok := strings.Cut(header, "="); ok {
				rw.Header().Set(name, value)
			}
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
			return true
		}
	}
	good := s.push(t, "a/faulty", noise(t, 1<<20))
	t.Cleanup(func() { w.dropImage(t, good) })
	down := newShop(t)
	nobody := strings.TrimPrefix(down.URL, "http://") + "/a/b:1"
	down.Close()
	for name, test := range map[string]struct {
		ref   string
		fault func(http.ResponseWriter, *http.Request) bool
		kind  errs.Kind
		plain string
	}{
		"down":          {nobody, nil, errs.Unavailable, "the registry cannot be reached"},
		"no such name":  {"registry.invalid/a/b:1", nil, errs.Unavailable, "the name of its registry is not known here"},
		"no such image": {strings.Replace(good, "faulty", "nothing", 1), nil, errs.Missing, "the registry does not have it"},
		"no such tag":   {strings.Replace(good, ":1", ":2", 1), nil, errs.Missing, ""},
		"login":         {good, refuse(401, `Www-Authenticate=Basic realm="x"`, "", "/v2/"), errs.Missing, "the registry does not have it, or not for everybody"},
		"refused":       {good, refuse(403, "", `{"errors":[{"code":"DENIED","message":"requested access is denied"}]}`, "/manifests/"), errs.Missing, "not for everybody"},
		"rate limit": {good, refuse(429, "", `{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit."}]}`, "/manifests/"),
			errs.Unavailable, "too many requests"},
		"in trouble":               {good, refuse(500, "", "boom", "/manifests/"), errs.Unavailable, "the registry is in trouble"},
		"in trouble in the middle": {good, refuse(500, "", "boom", "/blobs/"), errs.Unavailable, "the registry is in trouble"},
		"wrong bytes":              {good, refuse(200, "", "not what was promised", "/blobs/"), errs.Unavailable, "not the image that it announced"},
	} {
		t.Run(name, func(t *testing.T) {
			s.set(0, test.fault)
			l, _ := w.pulling(t, test.ref)
			err := w.Start(t.Context(), l)
			e, ok := errors.AsType[*errs.Error](err)
			if !ok || e.Kind != test.kind || e.Remedy == "" || !strings.Contains(err.Error(), test.plain) || !strings.Contains(err.Error(), test.ref) {
				t.Errorf("Start = %v, want kind %d, the image's name, %q and a remedy", err, test.kind, test.plain)
			}
			w.sees(t, l.ID, spawner.Absent)
		})
	}
	s.set(0, nil)
	if err := w.pulls.share(t.Context(), good, func(string, int) {}, func(ctx context.Context, tell report) error { return w.pull(ctx, good, tell) }); err != nil {
		t.Errorf("when the registry is well again: %v", err)
	}
}
