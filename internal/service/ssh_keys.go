package service

import (
	"cmp"
	"context"
	"net"
	"time"

	"slipway/internal/config"
	"slipway/internal/loopback"
	"slipway/internal/sshauth"
)

// makeSSHKeys opens what knows who may come in by ssh. There is none where the site has no ssh.
func (s *service) makeSSHKeys(ctx context.Context) (err error) {
	if !s.cfg.SSH.On() {
		return nil
	}
	s.sshKeys, err = sshauth.New(ctx, sshauth.Config{
		Store: s.store, Dir: s.path("ssh"), Host: s.cfg.SSH.Host, Port: s.cfg.SSH.PortShown(),
		Certificate: time.Duration(s.cfg.SSH.CertificateLifetime),
		Hubs:        s.sshHubs(), Logins: s.logins, Logger: s.log,
	})
	return err
}

// sshHubs are the hubs with their realms, in the order of the configuration.
func (s *service) sshHubs() (hubs []sshauth.Hub) {
	for _, h := range s.cfg.Hubs {
		hubs = append(hubs, sshauth.Hub{Name: h.Name, Realm: s.realms[h.Name]})
	}
	return hubs
}

// userAddress is where programs of a hub's users reach the service, as far as the configuration tells; empty: it does
// not. What stands before a listener on loopback is named by uplink.url alone, which workers share with users where its
// certificate is one that everybody trusts: one of uplink.ca_file is known to workers, and not to laptops.
func userAddress(cfg config.Config, h config.Hub) string {
	listen, scheme := cmp.Or(h.Listen, cfg.Listen), "http"
	if cfg.TLS.Cert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(listen)
	switch {
	case loopback.Is(host) && loopback.Is(cfg.SSH.Host):
		return scheme + "://" + listen
	case h.Listen == "" && cfg.Uplink.URL != "" && cfg.Uplink.CAFile == "":
		return cfg.Uplink.URL
	case loopback.Is(host) || scheme == "http" || cfg.SSH.Host == "":
		return ""
	}
	return scheme + "://" + net.JoinHostPort(cfg.SSH.Host, port)
}
