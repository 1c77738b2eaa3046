package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
)

// stubCredentials is the part of the service that keeps tokens and proxies: alice has one of each, bob nothing.
type stubCredentials struct {
	mu    sync.Mutex
	looks int // at the login
}

func in(d time.Duration) *time.Time {
	t := time.Now().Add(d + 30*time.Second)
	return &t
}

func stubToken() hubapi.Credential {
	return hubapi.Credential{
		CredentialHolder: hubapi.CredentialHolder{
			Name: "wlcg", Kind: "token", Issuer: "https://issuer.example.org", Subject: "0815\x1b[2J", From: "device",
		}, Scopes: []string{"openid", "storage.read:/", "storage.create:/", "compute.read"},
		Expires: in(50 * time.Minute), Renewable: true, Until: in(72 * time.Hour), Notes: []string{
			"eos has no token of its own",
		},
	}
}

func stubProxy() hubapi.Credential {
	return hubapi.Credential{
		CredentialHolder: hubapi.CredentialHolder{
			Name: "x509", Kind: "proxy", Issuer: "/C=XX/O=Grid/CN=Root", Subject: "/C=XX/O=Grid/CN=Alice", From: "upload", Trouble: "it ends at 12:00: put a new one",
		}, VO: "atlas", FQANs: []string{"/atlas/Role=NULL"},
		Expires: in(75 * time.Minute),
	}
}

// routes are user's.
func (s *stubCredentials) routes(mux *http.ServeMux, user string) {
	const api = hubapi.Base
	all := hubapi.Credentials{User: user, Credentials: []hubapi.Credential{}, Issuers: []string{"wlcg"}, Proxies: true}
	if user == "alice" {
		all.Credentials = []hubapi.Credential{stubToken(), stubProxy()}
	}
	mine := func(pattern string, serve func(hubapi.Credential, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			for _, c := range all.Credentials {
				if c.Name == r.PathValue("name") {
					serve(c, w, r)
					return
				}
			}
			refuse(w, 404, "not_found", "there is no credential \""+r.PathValue("name")+"\"", "slipway credentials lists those that there are")
		})
	}
	mux.HandleFunc("GET "+api+"/credentials", func(w http.ResponseWriter, r *http.Request) {
		if of := r.URL.Query().Get("user"); of != "" && of != user {
			refuse(w, 403, "forbidden", "the credentials of "+of+" are not yours", "leave the user out")
			return
		}
		answer(w, all)
	})
	mine("POST "+api+"/credentials/{name}/renew", func(c hubapi.Credential, w http.ResponseWriter, _ *http.Request) { answer(w, c) })
	mine("DELETE "+api+"/credentials/{name}", func(c hubapi.Credential, w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.CredentialRemoval{Name: c.Name, Note: "Its issuer was not told."})
	})
	mux.HandleFunc("PUT "+api+"/credentials/x509", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.ProxyRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !strings.HasPrefix(req.Proxy, "-----BEGIN CERTIFICATE-----") {
			refuse(w, 422, "invalid", "not what was expected", "")
			return
		}
		answer(w, stubProxy())
	})
	mux.HandleFunc("PUT "+api+"/credentials/{name}/refresh-token", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.RefreshTokenRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.RefreshToken != "refresh-me" || r.PathValue("name") != "wlcg" {
			refuse(w, 422, "invalid", "refresh_token: it is no refresh token", "one line, as the issuer gives it")
			return
		}
		answer(w, stubToken())
	})
	mux.HandleFunc("POST "+api+"/credentials/{name}/login", func(w http.ResponseWriter, r *http.Request) {
		answer(w, hubapi.CredentialLogin{
			ID: r.PathValue("name") + " of " + user, Issuer: r.PathValue("name"), URL: "https://issuer.example.org/device", Code: "WDJB-MJHT", Expires: time.Now().Add(time.Minute),
		})
	})
	mux.HandleFunc("GET "+api+"/credential-logins/{id}", func(w http.ResponseWriter, r *http.Request) { s.await(w, r.PathValue("id"), user) })
}

// await lets the login of wlcg wait once, and refuses others.
func (s *stubCredentials) await(w http.ResponseWriter, id, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := stubToken()
	switch s.looks++; {
	case id != "wlcg of "+user:
		refuse(w, 403, "forbidden", "you have refused the login", "begin it once more")
	case s.looks == 1:
		answer(w, hubapi.CredentialLoginState{Pending: true})
	default:
		answer(w, hubapi.CredentialLoginState{Credential: &c})
	}
}
