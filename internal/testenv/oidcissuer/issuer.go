// Package oidcissuer is a small conforming OIDC issuer for tests: discovery, keys that change, refresh tokens that are
// replaced at each use (one that comes a second time ends its family), login by device flow, token exchange,
// revocation; and, on demand, an issuer that is down, slow or says what no issuer should.
//
// It must not be used for anything but tests: who asks it is believed.
package oidcissuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Client is the client that the issuer knows, and its secret.
const (
	ClientID     = "slipway"
	ClientSecret = "the-client-secret-of-the-tests"
)

// Issuer is one that runs.
type Issuer struct {
	URL    string
	CA     []byte // PEM
	CAFile string

	server *httptest.Server

	mu       sync.Mutex // guards all below
	kid      int
	key      *ecdsa.PrivateKey
	life     time.Duration
	down     bool
	slow     time.Duration
	bare     bool
	keep     bool
	echo     bool
	metadata func(map[string]any)
	twist    func(claims jwt.MapClaims) string
	refresh  map[string]*family
	devices  map[string]*device
	codes    map[string]*device
	asked    map[string]int
	given    []string
	serial   int
}

// family is a refresh token and those that have come from it.
type family struct {
	subject string
	current string
	ended   bool
}

type device struct {
	subject         string
	denied, granted bool
}

// New runs an issuer until the test ends.
func New(t *testing.T) *Issuer {
	t.Helper()
	i := &Issuer{
		life: time.Hour, refresh: map[string]*family{}, devices: map[string]*device{}, codes: map[string]*device{},
		asked: map[string]int{},
	}
	i.newKey()
	i.server = httptest.NewTLSServer(i.handler())
	t.Cleanup(i.server.Close)
	i.URL = i.server.URL
	i.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
	i.CAFile = filepath.Join(t.TempDir(), "issuer-ca.pem")
	if err := os.WriteFile(i.CAFile, i.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *Issuer) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /.well-known/openid-configuration", i.serveMetadata)
	m.HandleFunc("GET /keys", i.serveKeys)
	m.HandleFunc("POST /token", i.serveToken)
	m.HandleFunc("POST /device", i.serveDevice)
	m.HandleFunc("POST /revoke", i.serveRevoke)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked[r.URL.Path]++
		down, slow := i.down, i.slow
		i.mu.Unlock()
		if slow > 0 {
			select {
			case <-time.After(slow):
			case <-r.Context().Done():
				return
			}
		}
		if down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		m.ServeHTTP(w, r)
	})
}

func (i *Issuer) newKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // never on this host
	}
	i.kid++
	i.key = key
}

func (i *Issuer) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{
		"issuer": i.URL, "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"revocation_endpoint":           i.URL + "/revoke",
		"device_authorization_endpoint": i.URL + "/device", "authorization_endpoint": i.URL + "/authorize",
		"id_token_signing_alg_values_supported": []string{"ES256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		"grant_types_supported":                 []string{"refresh_token", deviceGrant, exchangeGrant},
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.bare {
		m["grant_types_supported"] = []string{"refresh_token"}
		delete(m, "device_authorization_endpoint")
		delete(m, "revocation_endpoint")
	}
	if i.metadata != nil {
		i.metadata(m)
	}
	answer(w, http.StatusOK, m)
}

func (i *Issuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	public, err := i.key.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		panic(err) // never of a key of that curve
	}
	text := base64.RawURLEncoding.EncodeToString
	answer(w, http.StatusOK, map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": fmt.Sprint("k", i.kid),
		"x": text(public[1:33]), "y": text(public[33:]),
	}}})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func refuse(w http.ResponseWriter, code string) {
	answer(
		w, http.StatusBadRequest, map[string]string{"error": code, "error_description": "says the issuer of the tests"},
	)
}
