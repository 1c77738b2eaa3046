package oidcissuer

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	deviceGrant   = "urn:ietf:params:oauth:grant-type:device_code"
	exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	scope         = "openid offline_access storage.read:/ storage.create:/ storage.modify:/"
)

// known reports whether the client is the one that the issuer knows.
func known(r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	return ok && name == ClientID && password == ClientSecret || !ok && r.FormValue("client_id") == ClientID
}

func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	if !known(r) {
		refuse(w, "invalid_client")
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.echo {
		said := "no such token: " + r.FormValue("refresh_token") + r.FormValue("subject_token")
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": said})
		return
	}
	switch r.FormValue("grant_type") {
	case "refresh_token":
		i.refreshed(w, r.FormValue("refresh_token"))
	case deviceGrant:
		i.confirmed(w, r.FormValue("device_code"))
	case exchangeGrant:
		i.exchanged(w, r)
	default:
		refuse(w, "unsupported_grant_type")
	}
}

// refreshed answers to a refresh token. The old one dies with it; when it comes again, so does the family.
func (i *Issuer) refreshed(w http.ResponseWriter, token string) {
	f := i.refresh[token]
	if f == nil || f.ended {
		refuse(w, "invalid_grant")
		return
	}
	if f.current != token {
		f.ended = true
		refuse(w, "invalid_grant")
		return
	}
	i.asked["refresh "+f.subject]++
	if !i.keep {
		f.current = i.word("refresh")
		i.refresh[f.current] = f
	}
	i.grant(w, f)
}

// grant answers with tokens of a family.
func (i *Issuer) grant(w http.ResponseWriter, f *family) {
	access := i.token(f.subject, "https://wlcg.cern.ch/jwt/v1/any", scope)
	answer(w, http.StatusOK, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(i.life.Seconds()),
		"refresh_token": f.current, "scope": scope,
		"id_token": i.sign(jwt.MapClaims{
			"iss": i.URL, "sub": f.subject, "aud": ClientID, "exp": time.Now().Add(i.life).Unix(),
			"iat": time.Now().Unix(),
		}),
	})
}

func (i *Issuer) exchanged(w http.ResponseWriter, r *http.Request) {
	claims := jwt.MapClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(r.FormValue("subject_token"), claims)
	subject, _ := claims["sub"].(string)
	if err != nil || subject == "" || i.bare {
		refuse(w, "invalid_request")
		return
	}
	for _, s := range strings.Fields(r.FormValue("scope")) {
		if name, _, _ := strings.Cut(s, ":"); !strings.Contains(scope, name+":") {
			refuse(w, "invalid_scope")
			return
		}
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token": i.token(subject, r.FormValue("audience"), r.FormValue("scope")), "token_type": "Bearer",
		"expires_in":        int(i.life.Seconds()),
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
	})
}

// token makes an access token, or what the test wants in its place.
func (i *Issuer) token(subject, audience, scope string) string {
	now := time.Now()
	i.serial++
	claims := jwt.MapClaims{
		"iss": i.URL, "sub": subject, "aud": audience, "scope": scope, "iat": now.Unix(), "nbf": now.Unix(),
		"exp": now.Add(i.life).Unix(),
		"jti": fmt.Sprint(i.serial), "wlcg.ver": "1.0",
	}
	text := ""
	if i.twist != nil {
		text = i.twist(claims)
	}
	if text == "" {
		text = i.sign(claims)
	}
	i.given = append(i.given, text)
	return text
}

func (i *Issuer) sign(claims jwt.MapClaims) string {
	t := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	t.Header["kid"] = fmt.Sprint("k", i.kid)
	text, err := t.SignedString(i.key)
	if err != nil {
		panic(err) // never with a key of that kind
	}
	return text
}

func (i *Issuer) serveDevice(w http.ResponseWriter, r *http.Request) {
	if !known(r) {
		refuse(w, "invalid_client")
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	d, secret := &device{}, i.word("device")
	i.serial++
	code := fmt.Sprintf("CODE-%04d", i.serial)
	i.devices[secret], i.codes[code] = d, d
	answer(w, http.StatusOK, map[string]any{
		"device_code": secret, "user_code": code, "verification_uri": i.URL + "/activate",
		"verification_uri_complete": i.URL + "/activate?code=" + code,
		"expires_in":                600, "interval": 1,
	})
}

// confirmed answers to who waits for a user.
func (i *Issuer) confirmed(w http.ResponseWriter, secret string) {
	d := i.devices[secret]
	switch {
	case d == nil || d.granted:
		refuse(w, "invalid_grant")
	case d.denied:
		refuse(w, "access_denied")
	case d.subject == "":
		refuse(w, "authorization_pending")
	default:
		d.granted = true
		i.grant(w, i.newFamily(d.subject))
	}
}

func (i *Issuer) serveRevoke(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f := i.refresh[r.FormValue("token")]; f != nil {
		f.ended = true
	}
	w.WriteHeader(http.StatusOK)
}

func (i *Issuer) newFamily(subject string) *family {
	f := &family{subject: subject, current: i.word("refresh")}
	i.refresh[f.current] = f
	return f
}

// word makes a secret that is remembered.
func (i *Issuer) word(kind string) string {
	text := kind + "-" + rand.Text()
	i.given = append(i.given, text)
	return text
}
