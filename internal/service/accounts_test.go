package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// TestNumbersOfTheHub: what the Hub says is read as it is or not at all, and one that cannot be asked stands for
// nobody's number.
func TestNumbersOfTheHub(t *testing.T) {
	hubOf := func(name string, status int, answer string) hubPart {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(srv.Close)
		api, _ := url.Parse(srv.URL + "/hub/api")
		return hubPart{
			cfg:    config.Hub{Name: name, TokenFile: "x"},
			client: hub.New(hub.Config{APIURL: api, Service: "slipway", Token: secret.New("the-services-own-token")}),
		}
	}
	state := func(text string) hubPart { return hubOf("main", 200, `{"name":"alice","auth_state":`+text+`}`) }
	away := hubOf("second", 500, `{}`)
	for name, tc := range map[string]struct {
		hubs []hubPart
		uid  int
		kind errs.Kind
	}{
		"a number":           {[]hubPart{state(`{"ldap":{"uid":41001,"name":"al"}}`)}, 41001, 0},
		"in quotes":          {[]hubPart{state(`{"ldap":{"uid":"41001","name":"al"}}`)}, 41001, 0},
		"no number":          {[]hubPart{state(`{"ldap":{"uid":"41001x","name":"al"}}`)}, 0, errs.Invalid},
		"with a point":       {[]hubPart{state(`{"ldap":{"uid":41001.5,"name":"al"}}`)}, 0, errs.Invalid},
		"below zero":         {[]hubPart{state(`{"ldap":{"uid":-1,"name":"al"}}`)}, 0, errs.Invalid},
		"no name":            {[]hubPart{state(`{"ldap":{"uid":41001}}`)}, 0, errs.Missing},
		"nothing":            {[]hubPart{state(`{}`)}, 0, errs.Missing},
		"none kept":          {[]hubPart{state(`null`)}, 0, errs.Missing},
		"no such user":       {[]hubPart{hubOf("main", 404, `{}`)}, 0, errs.Missing},
		"hidden":             {[]hubPart{hubOf("main", 200, `{"name":"alice"}`)}, 0, errs.Unavailable},
		"down":               {[]hubPart{away}, 0, errs.Unavailable},
		"the other is down":  {[]hubPart{away, state(`{"ldap":{"uid":41001,"name":"al"}}`)}, 0, errs.Unavailable},
		"the first knows it": {[]hubPart{state(`{"ldap":{"uid":41001,"name":"al"}}`), away}, 41001, 0},
		"no hub of hers":     {nil, 0, errs.Missing},
	} {
		s := &service{hubs: tc.hubs, realms: realms{"main": "site", "second": "site"}}
		s.cfg.Users = config.Users{GID: 100, HubAccount: config.HubAccount{UID: "ldap.uid", Name: "ldap.name"}}
		n, err := s.hubsNumbers(t.Context(), "site", "alice")
		switch {
		case tc.uid != 0 && (err != nil || n.UID != tc.uid || n.GID != 100 || n.Login != "al"):
			t.Errorf("%s: %+v, %v", name, n, err)
		case tc.uid == 0 && (err == nil || !errs.Is(err, tc.kind)):
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}
