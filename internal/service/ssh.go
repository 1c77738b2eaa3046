package service

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"slipway/internal/config"
	"slipway/internal/devicelogin"
	"slipway/internal/metrics"
	"slipway/internal/sshauth"
	"slipway/internal/sshgate"
	"slipway/internal/tunnel"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// makeGate makes the ssh gateway. There is none where the site has no ssh.
func (s *service) makeGate(context.Context) error {
	if !s.cfg.SSH.On() {
		return nil
	}
	c := s.cfg.SSH
	s.gate = sshgate.New(sshgate.Config{
		Gatekeeper: gatekeeper{s.sshKeys}, Engine: s.workloads, Start: s.server.API.Servers.StartFor,
		Stop: s.server.API.Servers.StopFor,
		Audit: func(ctx context.Context, c spawner.Caller, action, what string, err error, which ...any) {
			s.server.Audit.Write(ctx, c, "ssh", action, what, err, which...)
		},
		Offers: func(o sshgate.Owner) catalog.Catalogue { return s.workloads.Offers(o.Hub, spawner.User(o.User)) },
		Dial:   agents{s.links}.dialSSH,
		Groups: func(o sshgate.Owner) []string { return s.groupsOf(o.Hub, spawner.User(o.User)) },
		Known:  s.knownAt, Browser: c.BrowserLogin && len(s.logins.Pages()) > 0, Networks: networksOf(c),
		Proxies: config.Prefixes(c.TrustedProxies), Deny: config.Prefixes(c.DeniedNetworks),
		AtOnce: c.MaxConnectionsPerUser, Logger: s.log,
	})
	return nil
}

func networksOf(c config.SSH) (out []sshgate.Network) {
	for _, n := range c.AllowedNetworks {
		out = append(out, sshgate.Network{Groups: n.Groups, From: config.Prefixes(n.From)})
	}
	return out
}

// knownAt says whether a hub has a user. Who is not there may not come in; what lets her in is Follow's to remove,
// which looks for longer.
func (s *service) knownAt(ctx context.Context, o sshgate.Owner) (bool, error) {
	if !slices.ContainsFunc(s.hubs, func(p hubPart) bool { return p.cfg.Name == o.Hub }) {
		return false, nil // whose users nobody vouches for any more; the hub may be configured again
	}
	gone, err := s.goneFrom(ctx, o)
	return !gone, err
}

// goneFrom says whether a hub has no such user. A hub at which the service has no token is not asked, and one that is
// not configured cannot be.
func (s *service) goneFrom(ctx context.Context, o sshauth.Owner) (bool, error) {
	for _, p := range s.hubs {
		if p.cfg.Name == o.Hub && p.server.Activity {
			known, err := p.client.Knows(ctx, o.User)
			return !known && err == nil, err
		}
	}
	return false, nil
}

// sshStats is what the gateway's metrics are made of; nil: there is none.
func (s *service) sshStats() func() metrics.SSH {
	if !s.cfg.SSH.On() {
		return nil
	}
	return func() metrics.SSH { return s.gate.Stats() }
}

// runGate runs the gateway, if there is one, and what looks after its keys.
func (s *service) runGate(ctx context.Context, l net.Listener, start func(func() error)) {
	if s.gate != nil {
		start(func() error { return s.gate.Run(ctx, l) })
		start(func() error { return s.sshKeys.Follow(ctx, s.goneFrom) })
	}
}

// dialSSH opens a stream to the ssh door of a session's agent.
func (a agents) dialSSH(ctx context.Context, id spawner.ID) (net.Conn, error) {
	return a.dial(ctx, id, tunnel.DoorSSH)
}

// gatekeeper lets the gateway ask the authority.
type gatekeeper struct{ *sshauth.Authority }

// Browser begins a login by the browser.
func (g gatekeeper) Browser(_ context.Context, login string, from netip.Addr) (sshgate.Prompt, error) {
	begun, err := g.Begin(devicelogin.Ask{Login: login, Address: from, Computer: "ssh"})
	if err != nil {
		return sshgate.Prompt{}, err
	}
	return sshgate.Prompt{
		Words: "To log in, open\n  " + pageWords(begun.Pages) + "\nin your browser, and type this code there:\n  " +
			begun.Code + "\n",
		Until: begun.Expires,
		Await: func(ctx context.Context) (sshgate.Pass, error) {
			state, err := g.Await(ctx, begun.ID)
			return state.Pass, err
		},
	}, nil
}

// pageWords says where a login is confirmed. Where there are several hubs, the one at which that is done has the
// sessions that she gets to.
func pageWords(pages []devicelogin.Page) string {
	var lines []string
	for _, p := range pages {
		if len(pages) == 1 {
			return p.URL
		}
		lines = append(lines, p.URL+" for your sessions at "+p.Hub)
	}
	return strings.Join(lines, "\n  or ")
}
