package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestFront: who knows its authority, and nobody else, reaches the service through it, as himself.
func TestFront(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Forwarded-Proto"))
	}))
	defer service.Close()
	f, err := newFront("127.0.0.1", service.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.serve(ctx) }()
	get := func(authorities *x509.CertPool) (string, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
		defer client.CloseIdleConnections()
		r, err := http.NewRequest(http.MethodGet, "https://"+f.listener.Addr().String()+"/sif/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer hers")
		answer, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(f.authority)
	if got, err := get(known); err != nil || got != "/sif/x Bearer hers https" {
		t.Errorf("the service was asked %q: %v", got, err)
	}
	if got, err := get(x509.NewCertPool()); err == nil {
		t.Errorf("who does not know the authority is told %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
