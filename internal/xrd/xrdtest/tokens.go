package xrdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Trust is an authority, a certificate of localhost by it, and an issuer of tokens that shows that certificate.
type Trust struct {
	Dir    string // of trust anchors, hashed
	Issuer string // its URL
	// Audience is that of the servers' tokens.
	Audience string

	t         testing.TB
	home      string
	names     []string // of the certificate
	cert, key string
	bundle    string // what the host trusts, and the authority
	scitokens string
	signer    *ecdsa.PrivateKey
}

// NewTrust makes one, and starts the issuer. The servers' certificate has more names than localhost, if there are none:
// the one by which xrootdfs calls a server that has told it its address.
func NewTrust(t testing.TB, names ...string) *Trust {
	t.Helper()
	home := directory(t)
	if len(names) == 0 {
		names = []string{"localhost", "[::ffff:127.0.0.1]"}
	}
	tr := &Trust{t: t, home: home, names: names, Dir: filepath.Join(home, "certs"), Audience: "https://origin.test"}
	Make(t, tr.Dir)
	tr.certify()
	tr.serve()
	tr.scitokens = filepath.Join(home, "scitokens.cfg")
	Write(t, tr.scitokens, fmt.Sprintf(
		"[Global]\naudience = %s\n\n[Issuer test]\nissuer = %s\nbase_path = /data\ndefault_user = xrootd\n",
		tr.Audience, tr.Issuer,
	), 0o644)
	return tr
}

// TokenOrigin starts a data server that lets in who has a token.
func (tr *Trust) TokenOrigin() *Server {
	tr.t.Helper()
	return start(tr.t, "xrootd-token-origin.cfg", tr.set(nil), tr)
}

// TokenCache starts an XCache in front of it, which looks at its users' tokens too.
func (tr *Trust) TokenCache(origin *Server) *Server {
	tr.t.Helper()
	own := filepath.Join(tr.home, "cache.token")
	Write(tr.t, own, tr.Token("cache", "storage.read:/", time.Hour), 0o600)
	return start(
		tr.t, "xrootd-token-cache.cfg", tr.set(map[string]string{"origin": origin.address(), "token": own}), tr,
	)
}

func (tr *Trust) set(more map[string]string) map[string]string {
	out := map[string]string{"cert": tr.cert, "key": tr.key, "trust": tr.Dir, "scitokens": tr.scitokens}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// Believe has servers that are started later take the tokens of another issuer, whose certificate is by the authorities
// in a file.
func (tr *Trust) Believe(issuer, caFile string) {
	t := tr.t
	t.Helper()
	for to, text := range map[string]string{tr.scitokens: fmt.Sprintf("\n[Issuer other]\nissuer = %s\nbase_path = /data\ndefault_user = xrootd\n", issuer), tr.bundle: read(t, caFile)} {
		Write(t, to, read(t, to)+text, 0o644)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Env is what a client needs to trust the servers.
func (tr *Trust) Env() []string { return []string{"X509_CERT_DIR=" + tr.Dir} }

// Token returns one of the issuer's, for so long.
func (tr *Trust) Token(subject, scope string, life time.Duration) string {
	tr.t.Helper()
	now := time.Now()
	head := part(tr.t, map[string]any{"alg": "ES256", "kid": "k1", "typ": "JWT"})
	body := part(tr.t, map[string]any{
		"iss": tr.Issuer, "sub": subject, "aud": tr.Audience, "scope": scope, "wlcg.ver": "1.0", "jti": rand.Text(),
		"iat": now.Add(-time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(life).Unix(),
	})
	sum := sha256.Sum256([]byte(head + "." + body))
	r, s, err := ecdsa.Sign(rand.Reader, tr.signer, sum[:])
	if err != nil {
		tr.t.Fatal(err)
	}
	return head + "." + body + "." + base64.RawURLEncoding.EncodeToString(
		append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...),
	)
}

func part(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// inside runs a program that finds the authority among those that the host trusts: the servers' library asks the issuer
// for its keys by them alone.
func (tr *Trust) inside(argv []string) []string {
	const script = `mount --bind "$0" /etc/ssl/certs/ca-certificates.crt && exec "$@"`
	return append([]string{"unshare", "--mount", "sh", "-c", script, tr.bundle}, argv...)
}

// certify makes the authority and localhost's certificate.
func (tr *Trust) certify() {
	t := tr.t
	t.Helper()
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Slipway test authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: root.NotBefore,
		NotAfter: root.NotAfter, BasicConstraintsValid: true,
		DNSNames: tr.names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	rootKey, leafKey := newKey(t), newKey(t)
	rootPEM := sign(t, root, root, rootKey, rootKey)
	tr.cert, tr.key, tr.bundle = filepath.Join(tr.home, "host.crt"), filepath.Join(tr.home, "host.key"), filepath.Join(tr.home, "bundle.crt")
	Write(t, filepath.Join(tr.Dir, "ca.pem"), rootPEM, 0o644)
	Write(t, tr.cert, sign(t, leaf, root, leafKey, rootKey), 0o644)
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	Write(t, tr.key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)
	known, _ := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	Write(t, tr.bundle, string(known)+rootPEM, 0o644)
	if out, err := exec.Command("openssl", "rehash", tr.Dir).CombinedOutput(); err != nil {
		t.Fatalf("openssl rehash: %v: %s", err, out)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, c, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), byKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// serve starts the issuer: what the servers ask one for is its keys.
func (tr *Trust) serve() {
	t := tr.t
	t.Helper()
	tr.signer = newKey(t)
	point, err := tr.signer.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	coordinate := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	answer := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	pair, err := tls.LoadX509KeyPair(tr.cert, tr.key)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(mux)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	tr.Issuer = "https://localhost:" + fmt.Sprint(srv.Listener.Addr().(*net.TCPAddr).Port)
	answer("/.well-known/openid-configuration", map[string]string{"issuer": tr.Issuer, "jwks_uri": tr.Issuer + "/jwks"})
	answer("/jwks", map[string]any{"keys": []map[string]string{{
		"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "k1", "x": coordinate(point[1:33]),
		"y": coordinate(point[33:]),
	}}})
}
