package server

import (
	"net/http"
	"testing"

	"slipway/spawner"
)

// TestSessionSpeaksForItselfAlone: a shared server that means ill has the origin of the Hub and of the pages. With a
// service worker for all of it, it would read and do there what its visitor can, from then on.
func TestSessionSpeaksForItselfAlone(t *testing.T) {
	ill := map[string]string{
		"Service-Worker-Allowed": "/", "Clear-Site-Data": `"*"`, "NEL": `{"report_to":"x","max_age":9,"success_fraction":1}`,
		"Report-To": `{"group":"x","max_age":9,"endpoints":[{"url":"https://evil.test/"}]}`, "Strict-Transport-Security": "max-age=0", "Alt-Svc": `h2="evil.test:443"`,
	}
	h := withApps(t, newFake(lab("s-mallory", "mal lory", "/user/mal lory/")), map[spawner.ID]http.Handler{"s-mallory": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("ill") {
			for name, value := range ill {
				w.Header().Set(name, value)
			}
		}
		w.Header().Set("Content-Security-Policy", "default-src *")
	})})
	for query, want := range map[string]string{"": "", "?ill": "/user/mal%20lory/"} {
		resp, _ := h.raw(t, "GET /user/mal%20lory/static/deep/sw.js"+query+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := resp.Header.Get("Service-Worker-Allowed"); got != want {
			t.Errorf("%q: a service worker may have %q, want %q", query, got, want)
		}
		for name := range ill {
			if name != "Service-Worker-Allowed" && resp.Header.Get(name) != "" {
				t.Errorf("%s: %s", name, resp.Header.Get(name))
			}
		}
		if resp.Header.Get("Content-Security-Policy") != "default-src *" {
			t.Error("a header of the answer's own is lost")
		}
	}
}
