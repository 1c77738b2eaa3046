package outpost

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func FuzzOutpostBody(f *testing.F) {
	f.Add([]byte(`{"name":"","env":{"JUPYTERHUB_USER":"alice","JUPYTERHUB_SERVER_NAME":"","JUPYTERHUB_SERVICE_PREFIX":"/user/alice/","JUPYTERHUB_USER_ID":"1",
		"JUPYTERHUB_EVENTS_URL":"http://hub:8081/x"},"user_options":{"start_id":"x","flavor":"small"},"misc":{"internal_ssl":false},"certs":{}}`))
	f.Add([]byte(`{"env":{"JUPYTERHUB_USER":"a","JUPYTERHUB_SERVICE_PREFIX":"/user/a/"},"user_options":{"flavor":[{}]}}`))
	f.Add([]byte(`{"env":{"JUPYTERHUB_USER":"a","JUPYTERHUB_SERVICE_PREFIX":"/user/a/"},"user_options":{"start_id":"x"}}`))
	f.Add([]byte(`{"env":{"\u0000":null},"certs":{"a":{}}}`))
	h := hubs.Hub{Name: "main", APIURL: &url.URL{Path: "/hub/api"}}
	log := slog.New(slog.DiscardHandler)
	o := New(Config{Hubs: hubs.NewSet([]hubs.Hub{h}), Logger: log}, web.New(web.Config{Logger: log}))
	catalogue := catalog.Catalogue{
		Images:   []catalog.ImageChoice{{Name: "n", Ref: "r"}},
		Profiles: []catalog.Profile{{Name: "small", Kind: spawner.Lab, Images: []string{"n"}, CPUs: 1, Memory: 1 << 30, Default: true}},
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseBody(raw)
		var req spawner.SessionRequest
		if err == nil {
			req, err = sessionRequest(h, catalogue, b)
		}
		if err == nil {
			if req.User == "" || !startIDs.MatchString(req.Launch) || !strings.HasSuffix(req.Spec.Prefix, "/") || !strings.Contains(req.Spec.Prefix, string(req.User)) {
				t.Errorf("%q gives %+v", raw, req)
			}
			return
		}
		w := httptest.NewRecorder()
		o.refuse(w, httptest.NewRequest(http.MethodPost, "/services", nil), err)
		if w.Code != 422 && w.Code != 419 || !json.Valid(w.Body.Bytes()) || bytes.ContainsAny(w.Body.Bytes()[:w.Body.Len()-1], "<>\n\r\x00") {
			t.Errorf("%q: %d %s", raw, w.Code, w.Body)
		}
		if w.Code == statusFailure {
			var shown failure
			if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || len(shown.Args) != 1 || oneLine(shown.Args[0]) != shown.Args[0] && len(shown.Args[0]) != lineLimit+3 {
				t.Errorf("the Hub shows Unknown for %s", w.Body)
			}
		}
	})
}
