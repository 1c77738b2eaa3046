package sockets

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// Listeners are where Hubs and users reach the service.
type Listeners struct {
	Common net.Listener
	Hubs   map[string]net.Listener // of hubs that have one for themselves
	SSH    net.Listener            // nil: the site has no ssh
}

// Addresses returns all addresses at which the service listens.
func Addresses(cfg config.Config) []string {
	all := []string{cfg.Listen}
	for _, h := range cfg.Hubs {
		if h.Listen != "" {
			all = append(all, h.Listen)
		}
	}
	if cfg.SSH.On() {
		all = append(all, cfg.SSH.Listen)
	}
	return all
}

// Open listens at all that is configured, with what was handed over to this process where it is that.
func Open(cfg config.Config, log *slog.Logger) (l Listeners, err error) {
	kept, err := takeHeld(log)
	if err != nil {
		return l, err
	}
	defer kept.close()
	if l.Common, err = kept.secure(cfg.Listen, cfg.TLS); err != nil {
		return l, err
	}
	l.Hubs = map[string]net.Listener{}
	for _, h := range cfg.Hubs {
		if h.Listen == "" {
			continue
		}
		if l.Hubs[h.Name], err = kept.secure(h.Listen, cfg.TLS); err != nil {
			delete(l.Hubs, h.Name)
			l.Close()
			return l, err
		}
	}
	if cfg.SSH.On() {
		own, err := kept.listen(cfg.SSH.Listen)
		if err != nil {
			l.Close()
			return l, errs.New(errs.Unavailable, "listen for ssh at %s: %w", cfg.SSH.Listen, err).
				With("another service may be there, such as this host's own sshd; see `ssh.listen` in the configuration")
		}
		l.SSH = own
	}
	return l, nil
}

// Addresses returns all addresses of HTTP, the common one first.
func (l Listeners) Addresses() []string {
	all := []string{l.Common.Addr().String()}
	for _, own := range l.Hubs {
		all = append(all, own.Addr().String())
	}
	slices.Sort(all[1:])
	return all
}

// Close closes all of them.
func (l Listeners) Close() {
	l.Common.Close()
	for _, own := range l.Hubs {
		own.Close()
	}
	if l.SSH != nil {
		l.SSH.Close()
	}
}

// secure listens at an address, with TLS where a certificate is configured.
func (h *held) secure(address string, cfg config.TLS) (net.Listener, error) {
	var secure *tls.Config
	if cfg.Cert != "" {
		k := &keyPair{cfg: cfg, log: h.log}
		if _, err := k.get(nil); err != nil {
			return nil, err
		}
		secure = &tls.Config{GetCertificate: k.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	l, err := h.listen(address)
	if err != nil {
		return nil, errs.New(errs.Unavailable, "listen at %s: %w", address, err).With("another service may be there; see `listen` in the configuration")
	}
	if secure != nil {
		return tls.NewListener(l, secure), nil
	}
	return l, nil
}

// keyPair is a certificate with its key, read again when its files change: certificates are renewed while the service
// runs, and connections must not be cut for it.
type keyPair struct {
	cfg config.TLS
	log *slog.Logger

	mu     sync.Mutex // guards all below
	looked time.Time
	stamps [2]time.Time
	pair   *tls.Certificate
}

// lookAtFiles is how often the files are looked at.
const lookAtFiles = 10 * time.Second

// get returns the certificate, the last good one while the files are not.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair != nil && time.Since(k.looked) < lookAtFiles {
		return k.pair, nil
	}
	k.looked = time.Now()
	err := k.read()
	if err != nil && k.pair == nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	if err != nil {
		k.log.Error("the new certificate cannot be read; the service goes on with the old one", "err", err)
	}
	return k.pair, nil
}

// read reads the files if they have changed.
func (k *keyPair) read() error {
	var stamps [2]time.Time
	for i, file := range []string{k.cfg.Cert, k.cfg.Key} {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		stamps[i] = info.ModTime()
	}
	if k.pair != nil && stamps == k.stamps {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(k.cfg.Cert, k.cfg.Key)
	if err != nil {
		return errs.New(errs.Invalid, "tls: %w", err).
			With("name a PEM certificate, with its chain, and the key that belongs to it")
	}
	k.pair, k.stamps = &pair, stamps
	return nil
}
