package tunnel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// certificate makes one that signs itself.
func certificate(t testing.TB, from, to time.Time, ips ...net.IP) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "slipway"}, NotBefore: from, NotAfter: to, DNSNames: []string{"slipway.example.org"},
		IPAddresses: ips, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// site serves h with a certificate, and gives the uplink that trusts it.
func site(t *testing.T, c tls.Certificate, h http.HandlerFunc) control.Uplink {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS, s.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{c}}, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	return control.Uplink{URL: "wss://" + s.Listener.Addr().String() + "/api/v1/link", Token: token, CA: string(ca)}
}

// TestWhyItCannotBeReached: what goes wrong between two hosts is said in words that lead to who can mend it.
func TestWhyItCannotBeReached(t *testing.T) {
	now, home := time.Now(), net.ParseIP("127.0.0.1")
	day := 24 * time.Hour
	sound := certificate(t, now.Add(-day), now.Add(day), home)
	none := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s was shown the credential", r.URL.Path)
		}
	}
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Welcome</html>") }
	refusing := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(403)
		_, _ = io.WriteString(w, `{"error":{"code":"forbidden","message":"the credential is of another run of s-1","remedy":"end it"}}`)
	}
	plain := httptest.NewServer(http.HandlerFunc(none))
	t.Cleanup(plain.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	at := func(address string) control.Uplink {
		return control.Uplink{URL: "wss://" + address + "/api/v1/link", Token: token}
	}
	unknown := site(t, sound, none)
	unknown.CA = site(t, certificate(t, now.Add(-day), now.Add(day), home), none).CA
	expired := certificate(t, now.Add(-2*day), now.Add(-day), home)
	stamps := func(times ...time.Time) (all []string) {
		for _, at := range times {
			all = append(all, stamp(at)[:15]) // to ten minutes
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		uplink control.Uplink
		ahead  time.Duration // of the agent's clock
		kind   errs.Kind
		want   []string
	}{
		{"a certificate that has expired", site(t, expired, none), 0, errs.Unavailable,
			append(stamps(now.Add(-2*day), now.Add(-day), now), "the certificate is out of its time")},
		{"a certificate of the future", site(t, certificate(t, now.Add(day), now.Add(2*day), home), none), 0, errs.Unavailable,
			append(stamps(now.Add(day)), "the certificate is out of its time")},
		{"a clock that is ahead", site(t, sound, none), 1000 * day, errs.Unavailable,
			append(stamps(now, now.Add(1000*day)), "this machine's clock is wrong")},
		{"a clock that is behind", site(t, sound, none), -1000 * day, errs.Unavailable, []string{"this machine's clock is wrong"}},
		{"a clock that hides that it has expired", site(t, expired, page), -36 * time.Hour, errs.Unavailable, []string{"opens no link", "status 200"}},
		{"another host's certificate", site(t, certificate(t, now.Add(-day), now.Add(day)), none), 0, errs.Unavailable,
			[]string{"is for slipway.example.org", "uplink.url"}},
		{"an authority that is not known", unknown, 0, errs.Unavailable, []string{"authority that is not known", "uplink.ca_file"}},
		{"no TLS", at(plain.Listener.Addr().String()), 0, errs.Unavailable, []string{"does not speak TLS"}},
		{"nobody there", at(closed.Addr().String()), 0, errs.Unavailable, []string{"nothing listens there"}},
		{"a web page", site(t, sound, page), 0, errs.Unavailable, []string{"opens no link", "status 200", "websockets"}},
		{"another place", site(t, sound, http.RedirectHandler("https://elsewhere.example.org/", http.StatusTemporaryRedirect).ServeHTTP), 0, errs.Unavailable, []string{"status 307"}},
		{"a refusal", site(t, sound, refusing), 0, errs.Forbidden, []string{"another run of s-1", "end it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDialer()
			d.now = func() time.Time { return time.Now().Add(tt.ahead) }
			_, err := d.Dial(t.Context(), tt.uplink)
			if !errs.Is(err, tt.kind) {
				t.Fatalf("of another kind: %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), token) {
				t.Error("the credential is in the error")
			}
		})
	}
}

// TestTheirTimeIsNotKnown: then both are told, and neither is blamed.
func TestTheirTimeIsNotKnown(t *testing.T) {
	c := &x509.Certificate{NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1000, 0)}
	err := explainTime(&url.URL{Host: "h"}, c, time.Unix(5000, 0), time.Time{})
	if err == nil || !strings.Contains(err.Error(), "1970-01-01 01:23:20Z") || !strings.Contains(err.Error(), "one of the two is wrong") {
		t.Error(err)
	}
	at := &url.URL{Scheme: "wss", Host: "127.0.0.1:1"}
	if got := theirTime(t.Context(), at); !got.IsZero() {
		t.Errorf("nobody's time is %v", got)
	}
}

// TestDialIsBounded: who accepts and says nothing does not hold an agent up.
func TestDialIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = NewDialer().Dial(ctx, control.Uplink{URL: "wss://" + l.Addr().String() + "/link"})
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Error(err)
	}
}
