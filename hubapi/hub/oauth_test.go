package hub

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway/internal/errs"
)

// door is a Hub's OAuth: it gives a token for the code "good" and checks what PKCE promises.
type door struct {
	version, challenge string
	form               url.Values
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/hub/api/":
		fmt.Fprintf(w, `{"version":%q}`, d.version)
	case "/hub/api/oauth2/token":
		_ = r.ParseForm()
		d.form = r.PostForm
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		proven := d.challenge == "" || base64.RawURLEncoding.EncodeToString(sum[:]) == d.challenge
		if r.URL.RawQuery != "" || r.PostForm.Get("code") != "good" || r.PostForm.Get("client_secret") != ownToken || !proven {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"users-token","token_type":"Bearer"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestLogin(t *testing.T) {
	public, _ := url.Parse("https://hub.example.org/jupyter/")
	for _, tc := range []struct {
		version string
		public  *url.URL
		begins  string
		pkce    bool
	}{
		{"6.1.1", public, "https://hub.example.org/jupyter/hub/api/oauth2/authorize?", true},
		{"5.5.1", public, "https://hub.example.org/jupyter/hub/api/oauth2/authorize?", false},
		{"6.0.0b2", nil, "/hub/api/oauth2/authorize?", true},
		{"", nil, "/hub/api/oauth2/authorize?", false},
	} {
		d := &door{version: tc.version}
		o := OAuth{Client: serviceOf(t, d.ServeHTTP), Public: tc.public, Redirect: "/services/slipway/oauth_callback"}
		l, err := o.Begin(t.Context())
		if err != nil || !strings.HasPrefix(l.URL, tc.begins) || strings.Contains(l.URL, ownToken) || (l.Verifier != "") != tc.pkce {
			t.Fatalf("%s: %+v, %v", tc.version, l, err)
		}
		u, _ := url.Parse(l.URL)
		q := u.Query()
		if q.Get("client_id") != "service-slipway" || q.Get("redirect_uri") != o.Redirect || q.Get("response_type") != "code" || q.Get("state") != l.State {
			t.Errorf("%v", q)
		}
		if tc.pkce != (q.Get("code_challenge_method") == "S256") || tc.pkce && len(l.Verifier) < 43 || strings.Contains(l.URL, "verifier") {
			t.Errorf("%v", q)
		}
		d.challenge = q.Get("code_challenge")
		token, err := o.Exchange(t.Context(), "good", l.Verifier)
		if err != nil || !token.Equal("users-token") || d.form.Get("redirect_uri") != o.Redirect || d.form.Has("code_verifier") != tc.pkce {
			t.Errorf("%v, %v", err, d.form)
		}
		second, _ := o.Begin(t.Context())
		if second.State == l.State || tc.pkce && second.Verifier == l.Verifier {
			t.Error("a state came twice")
		}
	}
}

func TestACodeThatIsRefused(t *testing.T) {
	d := &door{version: "6.1.1", challenge: "another"}
	o := OAuth{Client: serviceOf(t, d.ServeHTTP), Redirect: "/services/slipway/oauth_callback"}
	for _, tc := range []struct{ code, verifier string }{{"bad", ""}, {"good", "wrong"}} {
		token, err := o.Exchange(t.Context(), tc.code, tc.verifier)
		if !errs.Is(err, errs.Unauthorized) || !token.Empty() || strings.Contains(err.Error(), ownToken) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	c, _ := answering(t, 501, "")
	if _, err := (OAuth{Client: c}).Exchange(t.Context(), "good", ""); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a Hub that is down refuses nobody: %v", err)
	}
	c, _ = answering(t, 200, `{}`)
	if _, err := (OAuth{Client: c}).Exchange(t.Context(), "good", ""); !errs.Is(err, errs.Unavailable) {
		t.Error(err)
	}
}
