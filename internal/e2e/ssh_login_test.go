package e2e

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// commandLogin logs a computer in with a token, by `slipway ssh login`, and out again.
func (s *sshSite) commandLogin(l *laptop) {
	own := "Host mine\n  Port 1\n"
	if err := os.Mkdir(l.path(".ssh"), 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.write(".ssh/config", own)
	s.slipwaySSH(l, "login", s.url)
	ssh := func(host, command string) []string {
		return []string{"ssh", "-F", l.path(".ssh/config"), "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", host, command}
	}
	for _, host := range []string{"slipway", "slipway-small"} {
		l.expect("ssh "+host, l.run(nil, ssh(host, "id -un; echo err >&2; exit 3")...), ended{"alice\n", "err\n", 3})
	}
	l.must("scp", "-F", l.path(".ssh/config"), "-o", "LogLevel=ERROR", "config", "slipway:/tmp/config")
	open := l.start(ssh("slipway", "echo up; exec sleep 1000")...)
	open.says("up")
	s.revokeAll(l)
	if code := open.wait(); code != 255 {
		l.t.Errorf("a connection whose certificate is revoked ends with %d", code)
	}
	l.refused(ssh("slipway", "true")...)
	s.slipwaySSH(l, "login", "") // once more
	l.must(ssh("slipway", "true")...)
	s.slipwaySSH(l, "logout", "")
	if got := l.read(".ssh/config"); got != own {
		l.t.Errorf("after a logout ~/.ssh/config is %q", got)
	}
	if left, err := filepath.Glob(l.path(".ssh/*")); err != nil || len(left) != 1 {
		l.t.Errorf("a logout leaves %q", left)
	}
}

// slipwaySSH runs a command of `slipway ssh` on the laptop, with a token of alice's.
func (s *sshSite) slipwaySSH(l *laptop, args ...string) {
	l.t.Helper()
	c := l.command(append([]string{s.program, "ssh"}, strings.Fields(strings.Join(args, " "))...)...)
	c.Env = append(c.Env, "SLIPWAY_URL="+s.url, "SLIPWAY_TOKEN=token-of-alice")
	if e := l.finish(c, nil); e.code != 0 {
		l.t.Fatalf("slipway ssh %s: %s", args, e)
	}
}

// revokeAll revokes all certificates of alice.
func (s *sshSite) revokeAll(l *laptop) {
	l.t.Helper()
	list, _ := s.call("alice", http.MethodGet, "/api/v1/ssh/certificates", nil).object(l.t)["certificates"].([]any)
	if len(list) == 0 {
		l.t.Error("the login's certificate is not listed")
	}
	for _, each := range list {
		serial := strconv.FormatFloat(each.(map[string]any)["serial"].(float64), 'f', -1, 64)
		if r := s.call("alice", http.MethodDelete, "/api/v1/ssh/certificates/"+serial, nil); r.status >= 300 {
			l.t.Errorf("revoke %s: %d %s", serial, r.status, r.body)
		}
	}
}

// loginCode is what is typed on the page.
var loginCode = regexp.MustCompile(`\b[B-Z]{4}-[B-Z]{4}\b`)

// browserLogin logs in without any key, in a browser.
func (s *hubSite) browserLogin(l *laptop) {
	flags := []string{"-tt", "-o", "LogLevel=QUIET", "-o", "BatchMode=no", "-o", "PubkeyAuthentication=no", "-o", "PreferredAuthentications=keyboard-interactive"}
	p := l.terminal(l.sshArgs(append(flags, "echo user-$(id -un)")...)...)
	code := ""
	l.eventually("the code is shown", func() bool { code = loginCode.FindString(p.out.String()); return code != "" })
	browser := s.hub.Browse("alice")
	page := browser.Get("/services/slipway/login")
	form := regexp.MustCompile(`name="token" value="([^"]+)"`).FindSubmatch(page.Body)
	if form == nil {
		l.t.Fatalf("not the page of a code: %s", page.Text())
	}
	fields := url.Values{"token": {string(form[1])}, "code": {code}}
	if page = browser.Post("/services/slipway/login", fields); page.Status != http.StatusOK || !strings.Contains(html.UnescapeString(string(page.Body)), "alice+small") {
		l.t.Fatalf("a code is typed: %s", page.Text())
	}
	fields.Set("answer", "yes")
	if page = browser.Post("/services/slipway/login/decide", fields); page.Status != http.StatusOK || !strings.Contains(page.URL, "confirmed") {
		l.t.Fatalf("a login is confirmed: %s", page.Text())
	}
	p.types("\r")
	p.says("user-alice\r\n")
	if n := len(loginCode.FindAllString(p.out.String(), -1)); n != 1 {
		l.t.Errorf("the code is shown %d times: %s", n, p.out)
	}
	if code := p.wait(); code != 0 {
		l.t.Errorf("the login ends with %d: %s", code, p.out)
	}
}
