package hub

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

func TestPaths(t *testing.T) {
	for _, tc := range []struct{ user, server, want string }{
		{"alice", "", "/users/alice/server"},
		{"alice", "gpu", "/users/alice/servers/gpu"},
		{"has@", "x", "/users/has@/servers/x"},
		{"user--foo", "", "/users/user--foo/server"},
		{"a/b", "c/d", "/users/a%2Fb/servers/c%2Fd"},
		{"Åsa", "ü", "/users/%C3%85sa/servers/%C3%BC"},
		{"..", ".", "/users/%2E%2E/servers/%2E"},
		{"a?b#c", "%2F", "/users/a%3Fb%23c/servers/%252F"},
	} {
		if got := serverPath(tc.user, tc.server); got != tc.want {
			t.Errorf("%q %q: %s", tc.user, tc.server, got)
		}
		c, a := answering(t, http.StatusCreated, "")
		if _, err := c.StartServer(t.Context(), tc.user, tc.server, nil); err != nil || a.path != "/hub/api"+tc.want {
			t.Errorf("%q %q: the Hub saw %s (%v)", tc.user, tc.server, a.path, err)
		}
	}
	c, _ := answering(t, 200, "")
	if err := c.PostActivity(t.Context(), "", nil); !errs.Is(err, errs.Invalid) {
		t.Errorf("no user: %v", err)
	}
}

func TestFaultsHaveKinds(t *testing.T) {
	for _, tc := range []struct {
		status int
		kind   errs.Kind
		text   string
	}{
		{400, errs.Invalid, "so it says"}, {401, errs.Unauthorized, "token"}, {403, errs.Forbidden, "users:activity"},
		{404, errs.NotFound, "so it says"}, {405, errs.Missing, "newer JupyterHub"}, {409, errs.Conflict, "so it says"},
		{413, errs.Invalid, ""}, {429, errs.NoCapacity, "so it says"}, {501, errs.Unavailable, "501"}, {302, errs.Unavailable, "302"},
	} {
		c, a := answering(t, tc.status, says("so\n  it says"))
		err := c.PostActivity(t.Context(), "alice", map[string]time.Time{"": time.Now()})
		if !errs.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%d: %v", tc.status, err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %v", err, err, errors.Unwrap(err)), ownToken) || a.token != "token "+ownToken {
			t.Errorf("%d: token %q, error %v", tc.status, a.token, err)
		}
	}
}

func TestAnErrorRepeatsLittleOfTheHub(t *testing.T) {
	c, _ := answering(t, 404, says(strings.Repeat("ä", 10_000)))
	if err := c.DeleteUser(t.Context(), "x"); err != nil {
		t.Errorf("a user that is gone: %v", err)
	}
	if err := c.PostActivity(t.Context(), "x", nil); len(err.Error()) > 2*reasonLimit {
		t.Errorf("%d characters", len(err.Error()))
	}
	c, _ = answering(t, 404, "<html>")
	if err := c.PostActivity(t.Context(), "x", nil); !strings.Contains(err.Error(), "Not Found") {
		t.Error(err)
	}
}

func TestNoTokenIsMissing(t *testing.T) {
	c := New(Config{APIURL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Service: "slipway"})
	ctx := t.Context()
	_, users := c.Users(ctx)
	_, groups := c.Groups(ctx)
	_, start := c.StartServer(ctx, "a", "", nil)
	_, stop := c.StopServer(ctx, "a", "", false)
	_, look := c.Server(ctx, "a", "")
	_, token := c.CreateToken(ctx, "a", TokenRequest{})
	_, share := c.Share(ctx, "a", "", Sharee{User: "b"})
	_, shares := c.Shares(ctx, "a", "")
	_, begin := OAuth{Client: c}.Begin(ctx)
	_, exchange := OAuth{Client: c}.Exchange(ctx, "x", "")
	var progress error
	for _, progress = range c.Progress(ctx, "a", "") {
	}
	for i, err := range []error{
		users, groups, start, stop, look, token, share, shares, begin, exchange, progress, c.PostActivity(ctx, "a", nil), c.CreateUsers(ctx, "a"),
		c.DeleteUser(ctx, "a"), c.Unshare(ctx, "a", "", Sharee{User: "b"}), c.PostFlavors(ctx, "http://127.0.0.1:1", nil),
	} {
		if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "token_file") {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestAHubThatIsDown(t *testing.T) {
	c := overRounds(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	})
	err := c.PostActivity(t.Context(), "alice", nil)
	if !errs.Is(err, errs.Unavailable) || strings.Contains(err.Error(), "refused") || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "refused") {
		t.Errorf("the cause is for the log alone: %v", err)
	}
}

func TestAMuteHubIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overRounds(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
		begun := time.Now()
		if err := c.PostActivity(t.Context(), "alice", nil); !errs.Is(err, errs.Unavailable) || time.Since(begun) != askTime {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		err := c.PostActivity(ctx, "alice", nil)
		if !errors.Is(err, context.DeadlineExceeded) || !errs.Is(err, errs.Unavailable) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for _, tc := range []struct {
		name, after string
		status      int
		tries       int
		waits       time.Duration
		kind        errs.Kind
	}{
		{"throttled", "40", 429, 3, 80 * time.Second, errs.Internal},
		{"restarting", "5", 503, 3, 10 * time.Second, errs.Internal},
		{"a limit", "", 429, 1, 0, errs.NoCapacity},
		{"a start that failed", "", 500, 1, 0, errs.Unavailable},
		{"beyond reason", "99999999999999", 429, 3, 2 * longestWait, errs.Internal},
		{"beyond numbers", "9223372036854775807", 429, 3, 2 * longestWait, errs.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := overRounds(func(*http.Request) (*http.Response, error) {
					if tries++; tries == 3 {
						return response(202, http.NoBody), nil
					}
					if tc.after == "" {
						return response(tc.status, strings.NewReader(says("full"))), nil
					}
					return response(tc.status, strings.NewReader(says("full")), "Retry-After", tc.after), nil
				})
				begun := time.Now()
				up, err := c.StartServer(t.Context(), "alice", "", nil)
				if up || tries != tc.tries || time.Since(begun).Round(time.Second) != tc.waits || (err != nil) != (tc.kind != errs.Internal) {
					t.Errorf("%v, %v after %d tries and %v", up, err, tries, time.Since(begun))
				}
				if err != nil && !errs.Is(err, tc.kind) {
					t.Error(err)
				}
			})
		})
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overRounds(func(*http.Request) (*http.Response, error) {
			return response(429, http.NoBody, "Retry-After", "60"), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := c.StartServer(ctx, "alice", "", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// What may have been begun is not begun again.
func TestAStartIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			err   error
			tries int
		}{
			{io.ErrUnexpectedEOF, 1}, {&net.OpError{Op: "read", Err: errors.New("reset")}, 1}, {&net.OpError{Op: "dial", Err: errors.New("refused")}, 21},
		} {
			tries := 0
			c := overRounds(func(*http.Request) (*http.Response, error) { tries++; return nil, tc.err })
			if _, err := c.StartServer(t.Context(), "alice", "", nil); !errs.Is(err, errs.Unavailable) || tries != tc.tries {
				t.Errorf("%v: %v after %d tries", tc.err, err, tries)
			}
		}
	})
}

func TestTheHubsCertificateIsChecked(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"6.1.1"}`) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it would complain of the client that does not trust it
	srv.StartTLS()
	defer srv.Close()
	api, _ := url.Parse(srv.URL)
	if _, err := New(Config{APIURL: api}).Version(t.Context()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("unknown authority: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	v, err := New(Config{APIURL: api, CA: pool, Token: secret.New(ownToken)}).Version(t.Context())
	if err != nil || v.Major() != 6 {
		t.Errorf("%s, %v", v, err)
	}
}

func TestMajor(t *testing.T) {
	for v, want := range map[Version]int{"6.1.1": 6, "5.5.1": 5, "7": 7, "": 0, "main": 0, "-1.2": 0} {
		if v.Major() != want {
			t.Errorf("%q: %d", v, v.Major())
		}
	}
}
