package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
)

// service is the near end: links, and a listener for bare connections that do nothing.
type service struct {
	links     atomic.Pointer[tunnel.Links]
	server    *http.Server
	at, plain net.Listener
	cert, key []byte
	stop      func() // ends the links
	work      sync.WaitGroup
}

func newService(ctx context.Context) (*service, error) {
	s := &service{}
	pair, err := s.makeCertificate()
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if s.at, err = tls.Listen("tcp", "127.0.0.1:0", secure); err != nil {
		return nil, err
	}
	if s.plain, err = tls.Listen("tcp", "127.0.0.1:0", secure); err != nil {
		return nil, errors.Join(err, s.at.Close())
	}
	s.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.links.Load().Upgrade(w, r, strings.TrimPrefix(r.URL.Path, "/")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})}
	s.serve(ctx)
	s.work.Go(func() { _ = s.server.Serve(s.at) })
	s.work.Go(s.hold)
	return s, nil
}

// serve makes the service's side of the links, anew after stop.
func (s *service) serve(ctx context.Context) {
	links := tunnel.New(tunnel.Config{Logger: slog.New(slog.DiscardHandler)})
	s.links.Store(links)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = links.Run(ctx) })
	s.stop = func() { cancel(); running.Wait() }
}

// expect waits for agents.
func (s *service) expect(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.links.Load().Expect(id); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := s.links.Load().Wait(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) close() {
	s.stop()
	_ = s.server.Close()
	_ = s.plain.Close()
	s.work.Wait()
}

// hold keeps bare connections open as little as a program can: a goroutine that reads.
func (s *service) hold() {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		c, err := s.plain.Accept()
		if err != nil {
			return
		}
		open.Go(func() {
			defer c.Close()
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 4<<10))
		})
	}
}

func (s *service) makeCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	s.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return tls.X509KeyPair(s.cert, s.key)
}

// agents are the process at the far end.
type agents struct {
	ids   []string
	at    string // where it listens for bare connections
	pid   int
	close func() error
}

// start starts a process with so many agents and bare connections, and waits until all are there.
func (s *service) start(ctx context.Context, links, plain int) (*agents, error) {
	o := orders{Plain: plain, PlainAt: s.plain.Addr().String(), Cert: s.cert, Key: s.key}
	a := &agents{}
	for n := range links {
		id := fmt.Sprintf("s-%d", n)
		a.ids = append(a.ids, id)
		o.Uplinks = append(
			o.Uplinks, control.Uplink{URL: "wss://" + s.at.Addr().String() + "/" + id, Token: "x", CA: string(s.cert)},
		)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, far)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	a.pid, a.close = c.Process.Pid, func() error { return errors.Join(in.Close(), c.Wait()) }
	if err = json.NewEncoder(in).Encode(o); err == nil {
		a.at, err = bufio.NewReader(out).ReadString('\n')
	}
	if err == nil {
		err = s.expect(ctx, a.ids)
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.at = strings.TrimSpace(a.at)
	return a, nil
}
