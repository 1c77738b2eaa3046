package sockets

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway/internal/config"
)

// certify writes a certificate for name and gives its files.
func certify(t *testing.T, dir, name string) config.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for file, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: cert}, files.Key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// shown is the name on the certificate that a server shows.
func shown(t *testing.T, k *keyPair) string {
	t.Helper()
	pair, err := k.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.Subject.CommonName
}

func TestCertificateIsRenewedWhileTheServiceRuns(t *testing.T) {
	dir := t.TempDir()
	k := &keyPair{cfg: certify(t, dir, "first"), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if got := shown(t, k); got != "first" {
		t.Errorf("shows %q", got)
	}
	later := func(file string, d time.Duration) {
		k.looked = time.Time{}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	certify(t, dir, "second")
	later(k.cfg.Cert, time.Minute)
	if got := shown(t, k); got != "second" {
		t.Errorf("shows %q after the renewal", got)
	}
	if err := os.WriteFile(k.cfg.Key, []byte("half a ke"), 0o600); err != nil {
		t.Fatal(err)
	}
	later(k.cfg.Key, time.Hour)
	if got := shown(t, k); got != "second" {
		t.Errorf("shows %q while the files are broken", got)
	}
	if _, err := (&held{log: k.log}).secure("127.0.0.1:0", k.cfg); err == nil {
		t.Error("a service starts with a broken key")
	}
}

func TestListenWithTLS(t *testing.T) {
	files := certify(t, t.TempDir(), "service")
	l, err := (&held{log: slog.New(slog.NewTextHandler(t.Output(), nil))}).secure("127.0.0.1:0", files)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}()
	pool := x509.NewCertPool()
	text, err := os.ReadFile(files.Cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate", err)
	}
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := make([]byte, 5)
	if _, err := c.Read(hello); err != nil || string(hello) != "hello" {
		t.Errorf("%q, %v", hello, err)
	}
}
