package hub

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func follow(ctx context.Context, c *Client) (events []Progress, err error) {
	for p, e := range c.Progress(ctx, "alice", "x") {
		if err = e; err == nil {
			events = append(events, p)
		}
	}
	return events, err
}

func TestProgress(t *testing.T) {
	half := `data: {"progress": 50, "message": "half"}` + "\n\n"
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   []Progress
		kind   errs.Kind
	}{
		{"ready", 200, "\n\n\n\n" + half + "\n\n" + `data: {"progress":100,"ready":true,"message":"up","url":"/user/alice/x/"}` + "\n\n" + half,
			[]Progress{{Percent: 50, Message: "half"}, {Percent: 100, Ready: true, Message: "up", URL: "/user/alice/x/"}}, 0},
		{"failed", 200, `data: {"progress":100,"failed":true,"message":"no","html_message":"<b>no</b>"}` + "\n\n",
			[]Progress{{Percent: 100, Failed: true, Message: "no", HTML: "<b>no</b>"}}, 0},
		{"carriage returns, comments and other fields", 200, ": hello\r\nid: 7\r\nretry: 1\r\ndata:{\"progress\":3.5,\r\ndata: \"ready\":true}\r\n\r\n",
			[]Progress{{Percent: 3.5, Ready: true}}, 0},
		{"broken off", 200, half, []Progress{{Percent: 50, Message: "half"}}, errs.Unavailable},
		{"broken off within an event", 200, half + `data: {"progress":100,"ready":true}`, []Progress{{Percent: 50, Message: "half"}}, errs.Unavailable},
		{"garbage", 200, half + "data: <html>\n\n" + half, []Progress{{Percent: 50, Message: "half"}}, errs.Unavailable},
		{"a line without end", 200, "data: \"" + strings.Repeat("x", lineLimit+1), nil, errs.Unavailable},
		{"an event without end", 200, strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 6000), nil, errs.Unavailable},
		{"not starting", 400, says("alice is not starting..."), nil, errs.Conflict},
		{"unknown", 404, "", nil, errs.NotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, a := answering(t, tc.status, tc.body)
			got, err := follow(t.Context(), c)
			if d := cmp.Diff(tc.want, got); d != "" || (err != nil) != (tc.kind != 0) || err != nil && !errs.Is(err, tc.kind) {
				t.Error(err, d)
			}
			if a.path != "/hub/api/users/alice/servers/x/progress" {
				t.Error(a.path)
			}
		})
	}
}

func TestWhoHasHeardEnoughMayGo(t *testing.T) {
	c, _ := answering(t, 200, strings.Repeat(`data: {"progress":1}`+"\n\n", 5))
	n := 0
	for _, err := range c.Progress(t.Context(), "alice", "x") {
		if n++; err != nil || n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d events", n)
	}
}

// A start may take long, as long as the Hub gives signs of life.
func TestKeepAlivesHoldTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		c := overRounds(func(req *http.Request) (*http.Response, error) {
			context.AfterFunc(req.Context(), func() { r.CloseWithError(req.Context().Err()) })
			return response(200, r), nil
		})
		go func() {
			for range 100 {
				time.Sleep(8 * time.Second)
				_, _ = io.WriteString(w, "\n\n")
			}
			_, _ = io.WriteString(w, `data: {"progress":10}`+"\n\n")
		}()
		begun := time.Now()
		events, err := follow(t.Context(), c)
		if len(events) != 1 || !errs.Is(err, errs.Unavailable) || !errors.Is(err, errQuiet) || time.Since(begun) != 800*time.Second+quietLimit {
			t.Errorf("%v, %v after %v", events, err, time.Since(begun))
		}
	})
}

func TestProgressEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overRounds(func(req *http.Request) (*http.Response, error) {
			r, _ := io.Pipe()
			context.AfterFunc(req.Context(), func() { r.CloseWithError(req.Context().Err()) })
			return response(200, r), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := follow(ctx, c); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func FuzzReadEvents(f *testing.F) {
	f.Add("data: {\"progress\":1}\n\n")
	f.Add(":\r\ndata:{\r\ndata:}\r\n\r\n\n\n\ndata")
	f.Add("data: null\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		n := 0
		err := readEvents(strings.NewReader(s), func(Progress) bool { n++; return true })
		if err == nil || n > strings.Count(s, "data:") {
			t.Errorf("%d events, %v", n, err)
		}
	})
}
