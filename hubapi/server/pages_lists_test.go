package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/spawner"
)

// threeJobs are jobs of alice's: one that runs, one that has failed and one that is done.
func threeJobs() []spawner.Workload {
	now := time.Now()
	runs, failed, done := job("j-b", "alice"), job("j-c", "alice"), job("j-a", "alice")
	runs.Name, runs.Created, runs.Up = "beta", now.Add(-3*time.Hour), now.Add(-time.Minute)
	failed.Name, failed.Created, failed.Up, failed.Phase = "gamma", now.Add(-time.Hour), now.Add(-50*time.Minute), spawner.Stopped
	failed.Outcome = &spawner.Outcome{Failed: true, At: now.Add(-40 * time.Minute), Reason: "exit code 1"}
	done.Name, done.Created, done.Up, done.Phase = "alpha", now.Add(-2*time.Hour), now.Add(-2*time.Hour), spawner.Stopped
	done.Outcome = &spawner.Outcome{At: now.Add(-90 * time.Minute)}
	return []spawner.Workload{runs, failed, done}
}

func TestJobsAreSorted(t *testing.T) {
	p := startPages(t, newFake(threeJobs()...), nil).visitor(t, "alice")
	for order, want := range map[string][]string{
		"": {"j-b", "j-c", "j-a"}, "newest": {"j-c", "j-a", "j-b"}, "oldest": {"j-b", "j-a", "j-c"},
		"name": {"j-a", "j-b", "j-c"}, "state": {"j-b", "j-a", "j-c"}, "longest": {"j-a", "j-c", "j-b"},
	} {
		page, got := p.get(prefix+"?sort="+order).Body.String(), []string(nil)
		for _, a := range elements(t, page, "a") {
			if id, ok := strings.CutPrefix(attribute(a, "id"), "page-"); ok {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %q: %q, want %q", order, got, want)
		}
		if !strings.Contains(page, "<code>j-a</code>") || !strings.Contains(page, ">30 min<") {
			t.Errorf("by %q: neither ID nor time is shown", order)
		}
	}
	if r := p.get(prefix + "?sort=color"); r.Code != http.StatusUnprocessableEntity {
		t.Errorf("by an order that there is not: %d", r.Code)
	}
}

func TestSomeJobsAtOnce(t *testing.T) {
	engine := newFake(append(threeJobs(), job("j-bob", "bob"), lab("s-alice", "alice", "/base/user/alice/"))...)
	p := startPages(t, engine, nil).visitor(t, "alice")
	token := formToken(t, p.get(prefix).Body.String())
	all := "job=j-a&job=j-b&job=j-c&job=j-bob&job=s-alice&job=j-gone"
	for verb, says := range map[string]string{"cancel": "Cancel 1 job?", "retry": "Retry 1 job?", "discard": "Discard 2 jobs?"} {
		r := p.get(prefix + "jobs-chosen?do=" + verb + "&" + all)
		if text := r.Body.String(); r.Code != http.StatusOK || !strings.Contains(text, says) || strings.Contains(text, "j-bob") {
			t.Errorf("%s: %d, no %q", verb, r.Code, says)
		}
	}
	for query, want := range map[string]int{"do=cancel": 422, "do=boil&job=j-a": 422, "do=retry&job=j-a": 200} {
		if r := p.get(prefix + "jobs-chosen?" + query); r.Code != want {
			t.Errorf("%s: %d, want %d", query, r.Code, want)
		}
	}
	form, _ := url.ParseQuery(all)
	for _, c := range []struct {
		do, token string
		want      int
	}{{"cancel", "", 403}, {"cancel", token, 303}, {"discard", token, 303}} {
		form.Set("do", c.do)
		form.Set("token", c.token)
		if r := p.do("POST", prefix+"jobs-chosen", form); r.Code != c.want {
			t.Errorf("%s: %d %s", c.do, r.Code, r.Body)
		}
	}
	left := map[spawner.ID]spawner.Phase{}
	for id, w := range engine.work {
		left[id] = w.Phase
	}
	if left["j-bob"] != spawner.Running || left["s-alice"] != spawner.Running || left["j-b"] == spawner.Running {
		t.Errorf("what was not meant was changed, or what was meant was not: %v", left)
	}
}

// TestJobsAtOnceOfOthers: where an administrator changes others' jobs, the log says whose; of one's own it does not.
func TestJobsAtOnceOfOthers(t *testing.T) {
	for user, says := range map[string]bool{"root": true, "alice": false} {
		h := startPages(t, newFake(job("j-a", "alice"), job("j-b", "alice")), nil)
		p := h.visitor(t, user)
		token := formToken(t, p.get(prefix).Body.String())
		form := url.Values{"token": {token}, "do": {"cancel"}, "job": {"j-a", "j-b"}}
		if r := p.do("POST", prefix+"jobs-chosen", form); r.Code != http.StatusSeeOther {
			t.Errorf("%s: %d %s", user, r.Code, r.Body)
		}
		lines := auditLines(h.logged.String())
		last := lines[len(lines)-1]
		if !strings.Contains(last, `msg="jobs are canceled together"`) || strings.Contains(last, "on_behalf_of=[alice]") != says {
			t.Errorf("%s: %s", user, last)
		}
	}
}

func TestTheme(t *testing.T) {
	p := startPages(t, newFake(threeJobs()...), nil).visitor(t, "alice")
	page := p.get(prefix).Body.String()
	if strings.Contains(page, "data-theme=\"") {
		t.Error("a theme is chosen already")
	}
	token := formToken(t, page)
	p.send = func(r *http.Request) { r.Header.Set("Referer", "http://hub.test"+prefix+"jobs/j-a?x=1") }
	r := p.do("POST", prefix+"theme", url.Values{"token": {token}, "theme": {"dark"}})
	if r.Code != http.StatusSeeOther || r.Header().Get("Location") != prefix+"jobs/j-a?x=1" {
		t.Errorf("%d leads to %s", r.Code, r.Header().Get("Location"))
	}
	if page := p.get(prefix + "jobs/j-a").Body.String(); !strings.Contains(page, `<html lang="en" data-theme="dark">`) {
		t.Error("it is not remembered")
	}
	if r := p.do("POST", prefix+"theme", url.Values{"token": {token}, "theme": {`"><script>`}}); r.Code != http.StatusUnprocessableEntity {
		t.Errorf("what is no theme: %d", r.Code)
	}
	p.send = func(r *http.Request) { r.Header.Set("Referer", "https://elsewhere.test/") }
	r = p.do("POST", prefix+"theme", url.Values{"token": {token}, "theme": {"light"}})
	if r.Header().Get("Location") != prefix {
		t.Errorf("from elsewhere it leads to %s", r.Header().Get("Location"))
	}
}

func TestTimelineOfAJob(t *testing.T) {
	p := startPages(t, newFake(threeJobs()...), nil).visitor(t, "alice")
	for id, want := range map[string][]string{
		"j-c": {"Submitted", "Waited and prepared <strong>10 min", "Ran <strong>10 min", "Ended"}, "j-b": {"Ran <strong>1 min"},
	} {
		page := p.get(prefix + "jobs/" + id).Body.String()
		for _, words := range want {
			if !strings.Contains(page, words) {
				t.Errorf("%s: no %q", id, words)
			}
		}
	}
}

func TestEnvironmentIsSavedFromItsPage(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), nil)
	r := h.visitor(t, "alice").get(prefix + "environments/" + theDigest + "/sif")
	if r.Code != http.StatusOK || !strings.Contains(r.Header().Get("Content-Disposition"), `mine-v-1.sif`) || r.Body.Len() == 0 {
		t.Errorf("%d %v", r.Code, r.Header())
	}
	if r := h.visitor(t, "bob").get(prefix + "environments/" + theDigest + "/sif"); r.Code != http.StatusNotFound {
		t.Errorf("bob: %d", r.Code)
	}
}

// TestCodeOfAJob: its owner reads it, and can put it into a notebook; nobody else does.
func TestCodeOfAJob(t *testing.T) {
	h := startPages(t, newFake(threeJobs()...), nil)
	page := h.visitor(t, "alice").get(prefix + "jobs/j-a").Body.String()
	for _, want := range []string{"%%grid --name alpha\nprint(&#39;of alice&#39;) # &lt;b&gt;", "paste it into a notebook", `data-copy="code"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if page := h.visitor(t, "root").get(prefix + "jobs/j-a").Body.String(); strings.Contains(page, "of alice&#39;") {
		t.Error("an administrator reads what may hold secrets")
	}
}
