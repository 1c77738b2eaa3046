package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// front takes connections by TLS and hands what is asked for to the service.
type front struct {
	listener  net.Listener
	authority []byte // PEM
	server    http.Server
}

// newFront listens at a port of its own of an address. Its authority and its keys are made anew each time and lie
// nowhere.
func newFront(address, service string) (*front, error) {
	target, err := url.Parse(service)
	if err != nil {
		return nil, err
	}
	authority, certificate, err := certify(net.ParseIP(address), time.Now())
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen(
		"tcp", net.JoinHostPort(address, "0"),
		&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	)
	if err != nil {
		return nil, err
	}
	f := &front{listener: l, authority: authority}
	f.server.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
	}}
	f.server.ReadHeaderTimeout = time.Minute
	return f, nil
}

// serve answers until ctx ends. Connections of agents last as long as their sessions: none is waited for.
func (f *front) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { f.server.Close() })()
	if err := f.server.Serve(f.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// certify returns an authority and a certificate of it for an address, both for a year.
func certify(address net.IP, now time.Time) (authority []byte, certificate tls.Certificate, err error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, certificate, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, certificate, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Slipway's demo"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(1, 0, 0),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Slipway's service"}, NotBefore: root.NotBefore,
		NotAfter:    root.NotAfter,
		IPAddresses: []net.IP{address}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, certificate, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), authorityKey)
	if err != nil {
		return nil, certificate, err
	}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return authority, tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, nil
}
