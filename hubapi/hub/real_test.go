package hub_test

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi/hub"
	"slipway/internal/errs"
	"slipway/internal/hubtest"
	"slipway/internal/secret"
)

// quickSpawner is a Spawner for tests of the client alone: its servers are doors within the Hub that answer everything.
// The token is of a service that may do all that the client can ask for.
//
//go:embed testdata/quick_spawner.py
var quickSpawner string

const benchToken = "token-of-the-tests-of-the-client"

func clientFor(t *testing.T, h *hubtest.Hub, service, token string) *hub.Client {
	t.Helper()
	u, err := url.Parse(h.APIURL)
	if err != nil {
		t.Fatal(err)
	}
	return hub.New(hub.Config{APIURL: u, Service: service, Token: secret.New(token)})
}

// TestRealHub speaks to JupyterHub itself, in both major versions.
func TestRealHub(t *testing.T) {
	for _, major := range []int{5, 6} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			came := make(chan *url.URL, 16)
			pages := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { came <- r.URL }))
			defer pages.Close()
			h := hubtest.Start(t, hubtest.Options{Major: major, ServiceURL: pages.URL, BaseURL: "/some/base/", Config: quickSpawner})
			r := real{t, h, clientFor(t, h, "bench", benchToken), clientFor(t, h, "slipway", hubtest.ServiceToken), came}
			r.versionIs(major)
			r.usersComeAndGo()
			r.startsAndStops()
			r.startsThatFail()
			r.listsAll()
			r.activity()
			r.shares()
			r.logsIn(major)
			r.flavors()
		})
	}
}

type real struct {
	*testing.T
	hub     *hubtest.Hub
	bench   *hub.Client     // may do all
	slipway *hub.Client     // may do what a site's Slipway may
	came    <-chan *url.URL // what browsers asked of Slipway's pages
}

func (r real) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%v (%v)", err, cause(err))
	}
}

func cause(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

func (r real) is(err error, kind errs.Kind) {
	r.Helper()
	if !errs.Is(err, kind) {
		r.Errorf("%v (%v) is not of kind %v", err, cause(err), errs.RowOf(kind).Code)
	}
}

func (r real) versionIs(major int) {
	v, err := r.slipway.Version(r.Context())
	if r.check(err); v.Major() != major {
		r.Errorf("version %s", v)
	}
}

func (r real) usersComeAndGo() {
	ctx := r.Context()
	r.check(r.bench.CreateUsers(ctx, "alice", "has@", "user--foo", "åsa", "gone"))
	r.check(r.bench.CreateUsers(ctx, "alice"))
	r.check(r.bench.DeleteUser(ctx, "gone"))
	r.check(r.bench.DeleteUser(ctx, "gone"))
	_, err := r.bench.Server(ctx, "gone", "")
	r.is(err, errs.NotFound)
	narrow := clientFor(r.T, r.hub, "narrow", "token-of-the-service-that-sees-little")
	for _, c := range []struct {
		client *hub.Client
		user   string
		knows  bool
		kind   errs.Kind
	}{{r.slipway, "has@", true, 0}, {r.slipway, "gone", false, 0}, {narrow, "alice", true, 0}, {narrow, "has@", false, errs.Forbidden}, {narrow, "gone", false, errs.Forbidden}} {
		if knows, err := c.client.Knows(ctx, c.user); knows != c.knows || (err != nil) != (c.kind != 0) || err != nil && !errs.Is(err, c.kind) {
			r.Errorf("%s: %v, %v", c.user, knows, err)
		}
	}
	token, err := r.bench.CreateToken(ctx, "alice", hub.TokenRequest{Note: "a test", Expires: time.Hour})
	r.check(err)
	id, err := r.slipway.Identify(ctx, token.Reveal())
	if r.check(err); id.Name != "alice" {
		r.Errorf("the token is of %q", id.Name)
	}
	_, err = r.bench.CreateToken(ctx, "alice", hub.TokenRequest{Scopes: []string{"no:such:scope"}})
	r.is(err, errs.Invalid)
	_, err = clientFor(r.T, r.hub, "slipway", "wrong").Users(ctx)
	r.is(err, errs.Unauthorized)
	_, err = narrow.StartServer(ctx, "alice", "", nil)
	r.is(err, errs.Forbidden)
}

// start brings a server up and gives the words of its start.
func (r real) start(user, name string, options map[string]any) []string {
	r.Helper()
	up, err := r.bench.StartServer(r.Context(), user, name, options)
	r.check(err)
	var said []string
	for p, err := range r.bench.Progress(r.Context(), user, name) {
		r.check(err)
		if said = append(said, p.Message); p.Failed {
			r.Fatalf("%s/%s (up: %v): %+v", user, name, up, p)
		}
	}
	return said
}

func (r real) startsAndStops() {
	ctx := r.Context()
	for _, s := range []struct{ user, name string }{{"alice", ""}, {"alice", "gpu"}, {"has@", "x"}, {"user--foo", ""}, {"åsa", ""}} {
		said := r.start(s.user, s.name, map[string]any{"profile": "small"})
		if !slices.Contains(said, "half of small") {
			r.Errorf("%v: %q", s, said)
		}
		_, err := r.bench.StartServer(ctx, s.user, s.name, nil)
		r.is(err, errs.Conflict)
		server, err := r.bench.Server(ctx, s.user, s.name)
		if r.check(err); !server.Ready || server.Name != s.name || server.Started.IsZero() || !strings.HasPrefix(server.URL, "/some/base/user/") {
			r.Errorf("%+v", server)
		}
	}
	if _, err := r.bench.StopServer(ctx, "alice", "gpu", false); err != nil {
		r.Error(err)
	}
	r.hub.WaitStopped("alice", "gpu")
	server, err := r.bench.Server(ctx, "alice", "gpu")
	if r.check(err); !server.Stopped || server.Ready {
		r.Errorf("%+v", server)
	}
	gone, err := r.bench.StopServer(ctx, "alice", "gpu", true)
	if r.check(err); !gone {
		r.Error("a stopped server is not gone")
	}
	_, err = r.bench.Server(ctx, "alice", "gpu")
	r.is(err, errs.NotFound)
	if gone, err := r.bench.StopServer(ctx, "alice", "never", false); err != nil || !gone {
		r.Errorf("%v, %v", gone, err)
	}
}

func (r real) startsThatFail() {
	ctx := r.Context()
	_, err := r.bench.StartServer(ctx, "has@", "bad", map[string]any{"fail": "no <room> left"})
	r.check(err)
	var last hub.Progress
	for p, err := range r.bench.Progress(ctx, "has@", "bad") {
		r.check(err)
		last = p
	}
	if !last.Failed || !strings.Contains(last.Message, "no <room> left") {
		r.Errorf("%+v", last)
	}
	for _, err := range r.bench.Progress(ctx, "has@", "never") {
		r.is(err, errs.NotFound)
	}
	_, err = r.bench.StartServer(ctx, "nobody", "", nil)
	r.is(err, errs.NotFound)
	_, err = r.bench.StartServer(ctx, "has@", "third", nil)
	r.check(err)
	_, err = r.bench.StartServer(ctx, "has@", "fourth", nil)
	r.is(err, errs.OverQuota)
}

// listsAll holds that a server which is only being started is in the list, that pages join, and that a filtered view is
// refused.
func (r real) listsAll() {
	ctx := r.Context()
	_, err := r.bench.StartServer(ctx, "alice", "slow", map[string]any{"seconds": 60})
	r.check(err)
	users, err := r.slipway.Users(ctx)
	r.check(err)
	got := map[string][]string{}
	for _, u := range users {
		got[u.Name] = slices.Sorted(maps.Keys(u.Servers))
	}
	want := map[string][]string{"alice": {"", "slow"}, "has@": {"third", "x"}, "user--foo": {""}, "åsa": {""}}
	if d := cmp.Diff(want, got); d != "" || users[0].Servers["slow"].Pending != "spawn" {
		r.Errorf("%+v %s", users, d)
	}
	if _, err := r.bench.StopServer(ctx, "alice", "slow", false); err != nil {
		r.Error(err)
	}
	_, err = clientFor(r.T, r.hub, "narrow", "token-of-the-service-that-sees-little").Users(ctx)
	r.is(err, errs.Forbidden)
}

func (r real) activity() {
	ctx := r.Context()
	soon := time.Now().Add(time.Minute).Truncate(time.Microsecond)
	r.check(r.slipway.PostActivity(ctx, "alice", map[string]time.Time{"": soon}))
	server, err := r.bench.Server(ctx, "alice", "")
	if r.check(err); !server.LastActivity.Equal(soon) {
		r.Errorf("%v instead of %v", server.LastActivity, soon)
	}
	r.is(r.slipway.PostActivity(ctx, "alice", map[string]time.Time{"": soon, "never": soon}), errs.NotFound)
	r.is(r.slipway.PostActivity(ctx, "nobody", map[string]time.Time{"": soon}), errs.NotFound)
	r.is(r.slipway.PostActivity(ctx, "alice", map[string]time.Time{"": soon.Add(2 * time.Hour)}), errs.Invalid)
}

func (r real) shares() {
	ctx := r.Context()
	s, err := r.bench.Share(ctx, "alice", "", hub.Sharee{User: "has@"})
	if r.check(err); s.With.User != "has@" || len(s.Scopes) != 1 {
		r.Errorf("%+v", s)
	}
	_, err = r.bench.Share(ctx, "alice", "", hub.Sharee{User: "nobody"})
	r.is(err, errs.Invalid)
	all, err := r.bench.Shares(ctx, "alice", "")
	if r.check(err); len(all) != 1 || all[0].With.User != "has@" {
		r.Errorf("%+v", all)
	}
	r.check(r.bench.Unshare(ctx, "alice", "", hub.Sharee{User: "has@"}))
	r.check(r.bench.Unshare(ctx, "alice", "", hub.Sharee{User: "has@"}))
	if all, err = r.bench.Shares(ctx, "alice", ""); err != nil || len(all) != 0 {
		r.Errorf("%+v, %v", all, err)
	}
}

// logsIn takes a browser through the Hub's OAuth and back to the service's pages.
func (r real) logsIn(major int) {
	ctx := r.Context()
	public, _ := url.Parse(r.hub.URL + "/")
	o := hub.OAuth{Client: r.slipway, Public: public, Redirect: "/some/base/services/slipway/oauth_callback"}
	browser := r.hub.Browse("alice")
	code := func(l hub.Login) string {
		r.Helper()
		for len(r.came) > 0 {
			<-r.came // the Hub looks whether the pages are there
		}
		if !strings.HasPrefix(l.URL, r.hub.URL) {
			r.Fatal(l.URL)
		}
		reply := browser.Get(strings.TrimPrefix(l.URL, r.hub.URL))
		select {
		case back := <-r.came:
			if back.Path != o.Redirect || back.Query().Get("state") != l.State {
				r.Fatalf("the browser came back to %v", back)
			}
			return back.Query().Get("code")
		default:
			r.Fatalf("the browser did not come back: %s", reply.Text())
			return ""
		}
	}
	l, err := o.Begin(ctx)
	if r.check(err); (l.Verifier != "") != (major >= 6) {
		r.Errorf("PKCE with version %d: %v", major, l.Verifier != "")
	}
	got := code(l)
	token, err := o.Exchange(ctx, got, l.Verifier)
	r.check(err)
	id, err := r.slipway.Identify(ctx, token.Reveal())
	if r.check(err); id.Name != "alice" {
		r.Errorf("%+v", id)
	}
	_, err = o.Exchange(ctx, got, l.Verifier) // a code is good for once
	r.is(err, errs.Unauthorized)
	if major >= 6 {
		l, err = o.Begin(ctx)
		r.check(err)
		_, err = o.Exchange(ctx, code(l), "another-verifier-that-is-long-enough-to-be-one")
		r.is(err, errs.Unauthorized)
	}
}

// flavors: this Hub has no such door, and says so.
func (r real) flavors() {
	r.is(r.slipway.PostFlavors(r.Context(), r.hub.APIURL+"/no-such-door", map[string]int{}), errs.NotFound)
	r.is(r.slipway.PostEvent(r.Context(), "alice", "", secret.New(benchToken), hub.Event{Percent: 1, Message: "x"}), errs.NotFound)
}
