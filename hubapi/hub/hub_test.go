package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
)

func clientOf(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL + "/hub/api/")
	return New(Config{APIURL: u, Service: "slipway"})
}

func TestIdentify(t *testing.T) {
	answers := map[string]string{
		"good":     `{"kind":"user","name":"has@","admin":false,"scopes":["read:users","access:services!service=slipway"]}`,
		"all":      `{"kind":"user","name":"al","scopes":["access:services"]}`,
		"other":    `{"kind":"user","name":"bob","scopes":["access:services!service=binder","access:servers!user=bob"]}`,
		"service":  `{"kind":"service","name":"alice","scopes":["access:services"]}`,
		"nameless": `{"kind":"user","scopes":["access:services"]}`,
		"garbage":  `<html>`,
		"endless":  `{"kind":"` + strings.Repeat("x", answerLimit) + `"}`,
	}
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "token ")
		switch {
		case r.URL.Path != "/hub/api/user":
			t.Errorf("asked for %s", r.URL.Path)
		case token == "moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case answers[token] == "":
			w.WriteHeader(http.StatusForbidden)
		default:
			fmt.Fprint(w, answers[token])
		}
	})
	for _, tc := range []struct {
		token, name string
		kind        errs.Kind
		text        string
	}{
		{"good", "has@", 0, ""},
		{"all", "al", 0, ""},
		{"other", "", errs.Forbidden, "access:services!service=slipway"},
		{"service", "", errs.Forbidden, "no user"},
		{"nameless", "", errs.Forbidden, "no user"},
		{"unknown", "", errs.Unauthorized, "token page"},
		{"garbage", "", errs.Unavailable, ""},
		{"endless", "", errs.Unavailable, ""},
		{"moved", "", errs.Unavailable, ""},
	} {
		id, err := c.Identify(t.Context(), tc.token)
		if id.Name != tc.name || (err == nil) != (tc.name != "") || errs.KindOf(err) != tc.kind {
			t.Errorf("%s: %+v, %v", tc.token, id, err)
		}
		if err != nil && !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v does not say %q", tc.token, err, tc.text)
		}
	}
}

func TestHubThatIsDownIsNotARefusal(t *testing.T) {
	up := false
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up {
			w.WriteHeader(http.StatusNotImplemented) // the one 5xx that is not tried again
			return
		}
		fmt.Fprint(w, `{"kind":"user","name":"alice","scopes":["access:services"]}`)
	})
	if _, err := c.Identify(t.Context(), "x"); !errs.Is(err, errs.Unavailable) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
	up = true
	if id, err := c.Identify(t.Context(), "x"); err != nil || id.Name != "alice" {
		t.Errorf("the outage was remembered: %v", err)
	}
}

func TestAShortFaultIsTriedAgain(t *testing.T) {
	var n atomic.Int32
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"kind":"user","name":"alice","scopes":["access:services"]}`)
	})
	if _, err := c.Identify(t.Context(), "x"); err != nil || n.Load() != 2 {
		t.Errorf("%v after %d tries", err, n.Load())
	}
}

func TestCacheAges(t *testing.T) {
	for _, tc := range []struct {
		err error
		age time.Duration
	}{
		{nil, positiveAge}, {errs.New(errs.Unauthorized, "no"), negativeAge}, {errs.New(errs.Forbidden, "no"), negativeAge}, {errs.New(errs.Unavailable, "down"), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, asked := newCache(), 0
			ask := func() {
				_, _ = c.get(t.Context(), key{}, func(context.Context) (Identity, error) { asked++; return Identity{}, tc.err })
			}
			ask()
			if tc.age > 0 {
				time.Sleep(tc.age - time.Millisecond)
				ask()
				if asked != 1 {
					t.Errorf("%v: asked again before %v", tc.err, tc.age)
				}
				time.Sleep(time.Millisecond)
			}
			ask()
			if asked != 2 {
				t.Errorf("%v: asked %d times in all", tc.err, asked)
			}
		})
	}
}

func TestOneQuestionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := newCache(), atomic.Int32{}
		answer := make(chan struct{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				id, err := c.get(t.Context(), key{}, func(context.Context) (Identity, error) {
					asked.Add(1)
					<-answer
					return Identity{Name: "alice"}, nil
				})
				if err != nil || id.Name != "alice" {
					t.Errorf("%+v, %v", id, err)
				}
			})
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.get(gone, key{}, nil); !errs.Is(err, errs.Unavailable) {
			t.Errorf("one who goes away gets %v", err)
		}
		close(answer)
		all.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache()
	for i := range cacheLimit + 10 {
		k := key{byte(i), byte(i >> 8), byte(i >> 16)}
		_, _ = c.get(t.Context(), k, func(context.Context) (Identity, error) { return Identity{}, nil })
	}
	if len(c.entries) > cacheLimit {
		t.Errorf("%d entries", len(c.entries))
	}
}
