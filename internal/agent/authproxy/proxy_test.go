package authproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func readAll(res *http.Response) string {
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

func TestLogin(t *testing.T) {
	for _, below := range []string{"", "vscode/"} {
		s := newSite(t, below)
		b := s.browser(t)
		const path = "/a%2Fb?folder=%2Fhome%2Falice&x"
		base := "/user/alice/" + strings.TrimSuffix(below, "/")
		got := b.get(strings.TrimSuffix(base, "/") + path)
		if want := "the program: " + path; got.status != http.StatusOK || got.text != want {
			t.Errorf("%q: after the login: %d %s %q, want %q", below, got.status, got.url, got.text, want)
		}
		for range 3 {
			b.get("/user/alice/" + below)
		}
		if n := s.hub.questions(); n != 1 {
			t.Errorf("%q: the Hub was asked %d times", below, n)
		}
	}
}

// The way in that needs no login is the Hub's own question.
func TestHubsQuestion(t *testing.T) {
	s := newSite(t, "")
	r := s.browser(t).get("/user/alice/api")
	if r.status != http.StatusOK || r.header.Get("X-Jupyterhub-Version") != "6.1.1" || !strings.Contains(r.text, `"version"`) {
		t.Errorf("%+v", r)
	}
	if r := newSite(t, "vscode/").browser(t).stay().get("/user/alice/vscode/api"); r.status != http.StatusFound {
		t.Errorf("beside another server: %+v", r)
	}
}

// What is no page for a person is refused and not sent to a login.
func TestRefused(t *testing.T) {
	s := newSite(t, "")
	s.app = func(http.ResponseWriter, *http.Request) { t.Error("a stranger got in") }
	for name, ask := range map[string]func(b *browser) reply{
		"a program":        func(b *browser) reply { return b.get("/user/alice/", "Accept", "*/*") },
		"a form":           func(b *browser) reply { return b.send(http.MethodPost, "/user/alice/") },
		"a websocket":      func(b *browser) reply { return b.get("/user/alice/", "Connection", "Upgrade", "Upgrade", "websocket") },
		"no such token":    func(b *browser) reply { return b.get("/user/alice/", "Authorization", "token nobodys") },
		"another's token":  func(b *browser) reply { return b.get("/user/alice/", "Authorization", "Bearer bobs") },
		"one in the URL":   func(b *browser) reply { return b.get("/user/alice/?token=bobs") },
		"a made-up cookie": func(b *browser) reply { return b.get("/user/alice/", "Cookie", visitCookie+"=AAAA", "Accept", "*/*") },
		"an empty one":     func(b *browser) reply { return b.get("/user/alice/", "Cookie", visitCookie+"=", "Accept", "*/*") },
	} {
		if r := ask(s.browser(t).stay()); r.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
}

func TestOutside(t *testing.T) {
	s := newSite(t, "vscode/")
	s.app = func(_ http.ResponseWriter, r *http.Request) { t.Error("got in", r.URL) }
	for path, want := range map[string]int{
		"/user/alice/vscode":                     http.StatusFound,
		"/user/alice/vscodes/":                   http.StatusNotFound,
		"/user/alice/lab":                        http.StatusNotFound,
		"/user/bob/":                             http.StatusNotFound,
		"/user/alice/vscode/../lab":              http.StatusBadRequest,
		"/user/alice/vscode/%2e%2e/%2e%2e/bob/":  http.StatusBadRequest,
		"/user/alice/vscode/..%2f..%2fbob":       http.StatusBadRequest,
		"/user/alice/vscode/x/..":                http.StatusBadRequest,
		"/user/alice/vscode/./x":                 http.StatusBadRequest,
		"/user/alice/oauth_callback":             http.StatusForbidden,
		"/user/alice/oauth_callback?code=x":      http.StatusForbidden,
		"/user/alice/oauth_callback?state=m-AAA": http.StatusForbidden,
	} {
		if r := s.browser(t).stay().get(path, "Authorization", "token alices"); r.status != want {
			t.Errorf("%s: %d, want %d: %s", path, r.status, want, r.text)
		}
	}
}

// A login leads nowhere but below the gate's path, whatever its address looks like.
func TestReturnAddress(t *testing.T) {
	s := newSite(t, "")
	for path, want := range map[string]string{
		"/user/alice//evil.example/":                               "/user/alice/evil.example/",
		"/user/alice/%5Cevil.example":                              "/user/alice/%5Cevil.example",
		"/user/alice/x%0d%0aSet-Cookie:%20a=b?next=//evil.example": "/user/alice/x%0d%0aSet-Cookie:%20a=b?next=//evil.example",
		"/user/%61lice/?folder=/":                                  "/user/alice/?folder=/",
		"/user/alice/x?" + strings.Repeat("y", longAddress):        "/user/alice/",
	} {
		b := s.browser(t).stay()
		there := b.get(path)
		here := b.get(b.get(there.header.Get("Location")).header.Get("Location"))
		if got := here.header.Get("Location"); here.status != http.StatusFound || got != want || len(here.header["Set-Cookie"]) != 1 {
			t.Errorf("%s: to %q with %d, want %q", path, got, here.status, want)
		}
	}
}

func TestForgedLogins(t *testing.T) {
	s := newSite(t, "")
	alice, mallory := s.browser(t).stay(), s.browser(t).stay()
	begin := func(b *browser) (callback string) {
		return b.get(b.get("/user/alice/").header.Get("Location")).header.Get("Location")
	}
	refused := func(what string, r reply) {
		t.Helper()
		if r.status != http.StatusForbidden && r.status != http.StatusUnauthorized || strings.Contains(fmt.Sprint(r.header["Set-Cookie"]), visitCookie+"=") {
			t.Errorf("%s: %d %v", what, r.status, r.header)
		}
	}
	begin(alice)
	refused("mallory's login in alice's browser", alice.get(begin(mallory)))
	mine := begin(alice)
	refused("alice's in a browser without cookies", s.browser(t).stay().get(mine))
	refused("and after that it is used up", alice.get(mine))
	mine = begin(alice)
	if r := alice.get(mine); r.status != http.StatusFound {
		t.Fatalf("alice's own: %d %s", r.status, r.text)
	}
	refused("again", alice.get(mine))
	refused("a code that the Hub has not given", alice.get(strings.Replace(begin(s.browser(t).stay()), "code=", "code=not", 1)))
	state := mallory.get("/user/alice/").state()
	refused("no code", mallory.get("/user/alice/oauth_callback?state="+state))
	state = mallory.get("/user/alice/").state()
	refused("a made-up code", mallory.get("/user/alice/oauth_callback?code=made-up&state="+state))
	s.hub.change(func() { s.hub.who = "bob" })
	refused("another user's", mallory.get(begin(mallory)))
	s.hub.change(func() { s.hub.who = "root" })
	if r := mallory.get(begin(mallory)); r.status != http.StatusFound {
		t.Errorf("who may use all servers: %d %s", r.status, r.text)
	}
}

// With several tabs each has its login, and all of them end well.
func TestTabs(t *testing.T) {
	s := newSite(t, "")
	b := s.browser(t).stay()
	var back []string
	for i := range 3 {
		back = append(back, b.get(b.get(fmt.Sprint("/user/alice/", i)).header.Get("Location")).header.Get("Location"))
	}
	for i, address := range back {
		if r := b.get(address); r.status != http.StatusFound || r.header.Get("Location") != fmt.Sprint("/user/alice/", i) {
			t.Errorf("tab %d: %d %v", i, r.status, r.header)
		}
	}
}

func TestCookies(t *testing.T) {
	s := newSite(t, "")
	for name, test := range map[string]struct{ proto, want string }{
		"plain": {"", ""}, "https": {"https", "; Secure"}, "by two proxies": {"https,http", "; Secure"}, "behind one": {"http,https", ""},
	} {
		b := s.browser(t).stay()
		first := b.get("/user/alice/", "X-Forwarded-Proto", test.proto)
		if c := first.header.Get("Set-Cookie"); !strings.HasSuffix(c, "; Path=/user/alice/; Max-Age=600; HttpOnly"+test.want+"; SameSite=Lax") {
			t.Errorf("%s: %s", name, c)
		}
		_, value, _ := strings.Cut(strings.Split(first.header.Get("Set-Cookie"), ";")[0], "=")
		last := b.get(b.get(first.header.Get("Location")).header.Get("Location"), "X-Forwarded-Proto", test.proto, "Cookie", loginCookie+"="+value)
		if c := last.header.Get("Set-Cookie"); !strings.HasSuffix(c, "; Path=/user/alice/; HttpOnly"+test.want+"; SameSite=Lax") {
			t.Errorf("%s: %s", name, c)
		}
	}
}

// Nothing that lets somebody in anywhere reaches the program; Host does, and what proxies have said.
func TestHandedOn(t *testing.T) {
	s := newSite(t, "")
	var got http.Header
	var host, uri string
	s.app = func(_ http.ResponseWriter, r *http.Request) { got, host, uri = r.Header, r.Host, r.URL.RequestURI() }
	s.browser(t).get("/user/alice/x/?a=1&token=alices&b=%20", "Cookie", "jupyterhub-user-alice=1; vscode-tkn=2; slipway-code=3; _xsrf=4; code-server-x=5; jupyterhub-session-id=6",
		"X-Forwarded-Proto", "https", "X-Forwarded-Host", "hub.example", "Origin", s.web.URL)
	want := map[string]string{"Cookie": "vscode-tkn=2; code-server-x=5", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "hub.example", "Authorization": "", "Origin": s.web.URL}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Get(name), value)
		}
	}
	if "http://"+host != s.web.URL || uri != "/x/?a=1&b=%20" {
		t.Errorf("%s %s", host, uri)
	}
	s.browser(t).get("/user/alice/", "Authorization", "token alices")
	if got.Get("Authorization") != "" {
		t.Error("the program got the token")
	}
}

func TestOtherSites(t *testing.T) {
	s := newSite(t, "")
	b := s.browser(t)
	b.get("/user/alice/")
	own := s.web.URL
	for _, test := range []struct {
		name, method string
		headers      []string
		in           bool
	}{
		{"an old browser's page", "GET", nil, true},
		{"own", "POST", []string{"Origin", own, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, true},
		{"as the proxy was asked", "POST", []string{"Origin", "https://hub.example", "X-Forwarded-Host", "hub.example"}, true},
		{"a link", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, true},
		{"a form of another site's", "POST", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, false},
		{"a form of an old browser", "POST", []string{"Origin", "https://evil.example"}, false},
		{"a hidden one", "POST", []string{"Origin", "null"}, false},
		{"a neighbour's script", "GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, false},
		{"a websocket", "GET", []string{"Origin", "https://evil.example", "Connection", "Upgrade", "Upgrade", "websocket"}, false},
		{"a websocket of a link", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Connection", "Upgrade", "Upgrade", "websocket"}, false},
	} {
		if r := b.send(test.method, "/user/alice/", test.headers...); (r.status == http.StatusOK) != test.in || !test.in && r.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", test.name, r.status, r.text)
		}
	}
}

// A cookie is good at the gate that gave it, and there alone.
func TestCookieOfAnother(t *testing.T) {
	one, other := newSite(t, ""), newSite(t, "")
	b := one.browser(t).stay()
	login := b.get(b.get(b.get("/user/alice/").header.Get("Location")).header.Get("Location"))
	key, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	if r := one.browser(t).stay().get("/user/alice/", "Cookie", visitCookie+"=of-another; "+key); r.status != http.StatusOK {
		t.Errorf("its own, behind another: %d", r.status)
	}
	if r := other.browser(t).stay().get("/user/alice/", "Cookie", key); r.status != http.StatusFound {
		t.Errorf("another's: %d", r.status)
	}
}

func TestGiantHeaders(t *testing.T) {
	s := newSite(t, "")
	b := s.browser(t).stay()
	huge := strings.Repeat("x", 200_000)
	for _, headers := range [][]string{{"Cookie", visitCookie + "=" + huge}, {"Authorization", "token " + huge}, {"Origin", "http://" + huge}} {
		if r := b.get("/user/alice/", headers...); r.status != http.StatusFound && r.status != http.StatusForbidden && r.status != http.StatusOK {
			t.Errorf("%.20s: %d", headers[0], r.status)
		}
	}
}

// The Hub's word counts for five minutes; what it takes back ends then, and with its own session in the browser at
// once. While it does not answer, who was in stays.
func TestRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := error(nil)
		asked := 0
		ask := func() error { asked++; return answer }
		v := &visitor{}
		in := func(session string) bool { return v.check(time.Now(), digestOf(session), ask) == nil }
		step := func(what string, session string, want bool, questions int) {
			t.Helper()
			if before := asked; in(session) != want || asked-before != questions {
				t.Errorf("%s: %v, %d questions", what, !want, asked-before)
			}
		}
		step("first", "s", true, 1)
		step("again", "s", true, 0)
		<-time.After(recheck)
		step("later", "s", true, 1)
		step("another session of the Hub's", "other", true, 1)
		answer = errAway
		<-time.After(recheck)
		step("the Hub is away", "other", true, 1)
		step("it is not asked at once again", "other", true, 0)
		step("but for another session", "s", false, 1)
		<-time.After(hubPatience)
		step("away for long", "other", false, 1)
		answer = nil
		step("it is back", "other", true, 1)
		answer = errNo
		step("before the time", "other", true, 0)
		<-time.After(recheck)
		step("it says no", "other", false, 1)
		answer = nil
		step("that is for good", "other", false, 0)
	})
}

var errAway, errNo = errs.New(errs.Unavailable, "away"), errs.New(errs.Forbidden, "no")

func TestLoginsComeOfAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogins("m-")
		state, browser, _ := l.begin("", "/next")
		<-time.After(loginTime + time.Second)
		if _, ok := l.take(state, browser); ok {
			t.Error("a login of ten minutes ago is good")
		}
		first, browser, _ := l.begin("", "/first")
		<-time.After(time.Second)
		for range 3 * mostLogins {
			l.begin("", "/more")
		}
		if _, ok := l.take(first, browser); ok || len(l.states) > mostLogins {
			t.Errorf("%d logins are kept, the oldest of them: %v", len(l.states), ok)
		}
		state, own, _ := l.begin("made-up", "/next")
		if own == "made-up" {
			t.Error("a cookie that the gate has not given is kept")
		}
		if one, ok := l.take(state, own); !ok || one.next != "/next" {
			t.Error("the latest is forgotten")
		}
	})
}

func TestMeets(t *testing.T) {
	access := []string{"access:servers!server=al/ice/x", "access:servers!user=al/ice"}
	for scope, want := range map[string]bool{
		"access:servers": true, "access:servers!user=al/ice": true, "access:servers!server=al/ice/x": true, "access:servers!server=al/ice/": false,
		"access:servers!user=al": false, "access:servers!server=al/ice/xy": false, "access:services": false, "access:servers!group=x": false, "": false, "admin": false,
	} {
		if got := meets(access, []string{"self", scope}); got != want {
			t.Errorf("%q: %v", scope, got)
		}
	}
	if !meets(access[:1], []string{"access:servers!user=al/ice"}) || meets([]string{"access:servers!user=a"}, []string{"access:servers!server=a/"}) {
		t.Error("a user's servers and one of them")
	}
}

func TestSettings(t *testing.T) {
	change := func(name, value string) func(string) string {
		env := environment("http://127.0.0.1:8081")
		env[name] = value
		return func(n string) string { return env[n] }
	}
	for name, value := range map[string]string{
		"JUPYTERHUB_SERVICE_PREFIX": "", "JUPYTERHUB_CLIENT_ID": "", "JUPYTERHUB_API_TOKEN": "", "JUPYTERHUB_API_URL": "nowhere",
		"JUPYTERHUB_OAUTH_ACCESS_SCOPES": "[]", "JUPYTERHUB_OAUTH_CALLBACK_URL": "/user/bob/oauth_callback",
	} {
		if _, err := settingsOf(change(name, value), ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: %v", name, value, err)
		}
	}
	got := map[string]string{}
	for _, test := range [][3]string{
		{"JUPYTERHUB_HOST", "https://hub.example"}, {"JUPYTERHUB_BASE_URL", "/a/b/"}, {"JUPYTERHUB_OAUTH_CALLBACK_URL", "https://alice.hub.example/user/alice/oauth_callback"},
		{"JUPYTERHUB_SERVICE_PREFIX", "/user/alice"},
	} {
		s, err := settingsOf(change(test[0], test[1]), "vscode/")
		if err != nil {
			t.Fatal(err)
		}
		got[test[0]] = s.authorize + " " + s.back + " " + s.path
	}
	want := map[string]string{
		"JUPYTERHUB_HOST":               "https://hub.example/hub/api/oauth2/authorize /user/alice/oauth_callback /user/alice/vscode/",
		"JUPYTERHUB_BASE_URL":           "/a/b/hub/api/oauth2/authorize /user/alice/oauth_callback /user/alice/vscode/",
		"JUPYTERHUB_OAUTH_CALLBACK_URL": "/hub/api/oauth2/authorize /user/alice/oauth_callback /user/alice/vscode/",
		"JUPYTERHUB_SERVICE_PREFIX":     "/hub/api/oauth2/authorize /user/alice/oauth_callback /user/alice/vscode/",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A websocket carries bytes both ways, and counts as work when the browser sends much.
func TestWebsocket(t *testing.T) {
	s := newSite(t, "")
	s.app = func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	}
	c, err := net.Dial("tcp", s.web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET /user/alice/ HTTP/1.1\r\nHost: here\r\nAuthorization: token alices\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	echo := func(size int) {
		t.Helper()
		b := frame(2, size)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(b))
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, b) {
			t.Fatal(err)
		}
	}
	for range 500 {
		echo(7)
	}
	echo(greeting) // as after a break
	if now := s.gate.Traffic(); now.Open != 1 || !now.Acted.IsZero() {
		t.Errorf("an idle page: %+v", now)
	}
	echo(idleBytes + 1)
	if now := s.gate.Traffic(); now.Open != 1 || now.Acted.IsZero() {
		t.Errorf("somebody works: %+v", now)
	}
	c.Close()
	testenv.Until(t, "a closed connection is not counted", testenv.Hang, func() bool { return s.gate.Traffic().Open == 0 })
	if s.gate.Traffic().Ended.IsZero() {
		t.Error("it is not known when it ended")
	}
}
