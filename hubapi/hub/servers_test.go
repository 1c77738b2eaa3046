package hub

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func TestStartServer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		said   string
		up     bool
		kind   errs.Kind
	}{
		{"up", 201, "", true, 0},
		{"pending", 202, "", false, 0},
		{"runs", 400, "alice: is already running", false, errs.Conflict},
		{"stops", 400, "alice: is pending stop", false, errs.Conflict},
		{"too many", 400, "User alice already has the maximum of 3 named servers. One must be deleted before a new server can be created", false, errs.OverQuota},
		{"not enabled", 400, "Named servers are not enabled.", false, errs.Invalid},
		{"bad options", 400, "no profile is called x", false, errs.Invalid},
		{"no user", 404, "", false, errs.NotFound},
		{"failed", 500, "Unhandled error starting server alice", false, errs.Unavailable},
		{"no scope", 403, "", false, errs.Forbidden},
	} {
		c, a := answering(t, tc.status, says(tc.said))
		up, err := c.StartServer(t.Context(), "alice", "gpu", map[string]any{"profile": "small"})
		if up != tc.up || (err != nil) != (tc.kind != 0) || err != nil && !errs.Is(err, tc.kind) || err != nil && !strings.Contains(err.Error(), tc.said) {
			t.Errorf("%s: %v, %v", tc.name, up, err)
		}
		want := asked{"POST", "/hub/api/users/alice/servers/gpu", "", "token " + ownToken, "application/json", `{"profile":"small"}`}
		if d := cmp.Diff(want, *a, cmp.AllowUnexported(asked{})); d != "" {
			t.Error(d)
		}
	}
}

// A bare empty body must start the default profile.
func TestNoOptionsAreNoBody(t *testing.T) {
	c, a := answering(t, 202, "")
	if _, err := c.StartServer(t.Context(), "alice", "", nil); err != nil || a.body != "" || a.kind != "" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestStopServer(t *testing.T) {
	for _, tc := range []struct {
		status int
		remove bool
		gone   bool
		fails  bool
		body   string
	}{
		{204, false, true, false, ""}, {202, false, false, false, ""}, {404, false, true, false, ""}, {204, true, true, false, `{"remove":true}`},
		{400, true, false, true, `{"remove":true}`}, {501, false, false, true, ""},
	} {
		c, a := answering(t, tc.status, "")
		gone, err := c.StopServer(t.Context(), "alice", "x", tc.remove)
		if gone != tc.gone || (err != nil) != tc.fails || a.method != http.MethodDelete || a.body != tc.body {
			t.Errorf("%+v: %v, %v, %+v", tc, gone, err, a)
		}
	}
}

func TestServer(t *testing.T) {
	body := `{"kind":"user","name":"alice","servers":{
		"": {"name":"","ready":false,"pending":"spawn","stopped":false,"url":"/user/alice/","started":"2026-11-01T10:00:00.000000Z","last_activity":null},
		"x": {"name":"x","ready":true,"pending":null,"stopped":false,"url":"/user/alice/x/","started":null,"last_activity":"2026-11-01T10:00:00.5Z"},
		"y": {"name":"y","ready":false,"pending":false,"stopped":true}}}`
	c, a := answering(t, 200, body)
	for name, want := range map[string]Server{
		"":  {Pending: "spawn", URL: "/user/alice/", Started: at("2026-11-01T10:00:00Z")},
		"x": {Name: "x", Ready: true, URL: "/user/alice/x/", LastActivity: at("2026-11-01T10:00:00.5Z")},
		"y": {Name: "y", Stopped: true},
	} {
		got, err := c.Server(t.Context(), "alice", name)
		if d := cmp.Diff(want, got); d != "" || err != nil || a.query != "include_stopped_servers=1" {
			t.Error(name, err, d)
		}
	}
	if _, err := c.Server(t.Context(), "alice", "z"); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

func TestPostActivity(t *testing.T) {
	c, a := answering(t, 200, "")
	cet := time.FixedZone("CET", 3600)
	err := c.PostActivity(t.Context(), "has@", map[string]time.Time{"": at("2026-11-01T10:00:00Z").In(cet), "x": at("2026-11-01T10:00:01.123456789Z")})
	want := asked{
		"POST", "/hub/api/users/has@/activity", "", "token " + ownToken, "application/json",
		`{"last_activity":"2026-11-01T10:00:01.123456Z","servers":{"":{"last_activity":"2026-11-01T10:00:00.000000Z"},` +
			`"x":{"last_activity":"2026-11-01T10:00:01.123456Z"}}}`,
	}
	if d := cmp.Diff(want, *a, cmp.AllowUnexported(asked{})); d != "" || err != nil {
		t.Error(err, d)
	}
	c, _ = answering(t, 400, says("No such server 'x' for user alice"))
	if err := c.PostActivity(t.Context(), "alice", map[string]time.Time{"x": time.Now()}); !errs.Is(err, errs.NotFound) {
		t.Errorf("unknown server: %v", err)
	}
	c, _ = answering(t, 400, says("Rejecting activity from more than an hour in the future: x"))
	if err := c.PostActivity(t.Context(), "alice", map[string]time.Time{"x": time.Now()}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a stamp of tomorrow: %v", err)
	}
}

func TestUsersComeAndGo(t *testing.T) {
	c, a := answering(t, 201, `[]`)
	if err := c.CreateUsers(t.Context(), "a", "b/c"); err != nil || a.body != `{"usernames":["a","b/c"]}` || a.path != "/hub/api/users" {
		t.Errorf("%v, %+v", err, a)
	}
	c, _ = answering(t, 409, says("All 1 users already exist"))
	if err := c.CreateUsers(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	c, a = answering(t, 204, "")
	if err := c.DeleteUser(t.Context(), "b/c"); err != nil || a.path != "/hub/api/users/b%2Fc" {
		t.Errorf("%v, %+v", err, a)
	}
}

func TestKnows(t *testing.T) {
	for _, tc := range []struct {
		status       int
		token        string // what the Hub tells of the service's own
		knows, fails bool
	}{
		{200, ``, true, false}, {404, `{"kind":"service","scopes":["list:users","read:users:name"]}`, false, false}, {403, ``, false, true}, {500, ``, false, true},
		{404, `<html>not a Hub</html>`, false, true}, {404, `{}`, false, true}, {404, `{"kind":"service","scopes":["list:users!group=grid","read:users:name!group=grid"]}`, false, true},
	} {
		c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.EscapedPath() {
			case "/hub/api/users/b%2Fc":
				w.WriteHeader(tc.status)
			case "/hub/api/user":
				_, _ = io.WriteString(w, tc.token)
			default:
				t.Errorf("asked for %s", r.URL)
			}
		})
		if knows, err := c.Knows(t.Context(), "b/c"); knows != tc.knows || (err != nil) != tc.fails {
			t.Errorf("%+v: %v, %v", tc, knows, err)
		}
	}
}

func TestCreateToken(t *testing.T) {
	c, a := answering(t, 201, `{"token":"abc","id":"a1"}`)
	token, err := c.CreateToken(t.Context(), "alice", TokenRequest{Note: "bench", Expires: time.Hour, Scopes: []string{"access:services"}})
	if err != nil || !token.Equal("abc") || a.body != `{"expires_in":3600,"note":"bench","scopes":["access:services"]}` {
		t.Errorf("%v, %+v", err, a)
	}
	c, _ = answering(t, 201, `{}`)
	if _, err := c.CreateToken(t.Context(), "alice", TokenRequest{}); !errs.Is(err, errs.Unavailable) {
		t.Error(err)
	}
}

func TestShares(t *testing.T) {
	c, a := answering(t, 200, `{"scopes":["access:servers!server=alice/"],"user":{"name":"bob"},"group":null,"kind":"user"}`)
	s, err := c.Share(t.Context(), "alice", "", Sharee{User: "bob"})
	if d := cmp.Diff(Share{Sharee{User: "bob"}, []string{"access:servers!server=alice/"}}, s); d != "" || err != nil {
		t.Error(err, d)
	}
	if a.path != "/hub/api/shares/alice/" || a.body != `{"user":"bob"}` || a.method != http.MethodPost {
		t.Errorf("%+v", a)
	}
	err = c.Unshare(t.Context(), "alice", "x", Sharee{Group: "g"}, "read:servers")
	if err != nil || a.path != "/hub/api/shares/alice/x" || a.body != `{"group":"g","scopes":["read:servers"]}` || a.method != http.MethodPatch {
		t.Errorf("%v, %+v", err, a)
	}
	for _, both := range []Sharee{{}, {User: "a", Group: "b"}} {
		if _, err := c.Share(t.Context(), "alice", "", both); !errs.Is(err, errs.Invalid) {
			t.Error(err)
		}
	}
	c, _ = answering(t, 200, `{"items":[{"scopes":["s"],"user":{"name":"bob"}},{"scopes":["s"],"user":null,"group":{"name":"bob"}}],"_pagination":{"next":null}}`)
	all, err := c.Shares(t.Context(), "alice", "")
	if d := cmp.Diff([]Share{{Sharee{User: "bob"}, []string{"s"}}, {Sharee{Group: "bob"}, []string{"s"}}}, all); d != "" || err != nil {
		t.Error(err, d)
	}
	c, _ = answering(t, 404, "")
	if _, err := c.Shares(t.Context(), "alice", ""); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}
