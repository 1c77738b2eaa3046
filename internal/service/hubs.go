package service

import (
	"context"
	"fmt"
	"time"

	"slipway/hubapi/hub"
	"slipway/hubapi/server/hubs"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/hubsync"
	"slipway/internal/service/clients"
	"slipway/spawner"
)

// hubPart is one configured hub with its client.
type hubPart struct {
	cfg    config.Hub
	client *hub.Client
	server hubs.Hub
	groups *hubsync.Membership // nil: the Hub is not asked for them
}

func (s *service) makeHubs(context.Context) error {
	for _, h := range s.cfg.Hubs {
		p, err := newHubPart(h)
		if err != nil {
			return fmt.Errorf("hub %s: %w", h.Name, err)
		}
		if g := s.cfg.HubGroups; g.Enabled && h.TokenFile != "" {
			p.groups = hubsync.NewMembership(time.Duration(g.MaxAge))
		}
		p.server.Address = userAddress(s.cfg, h)
		p.server.Env = s.cfg.VSCode.Environment()
		s.hubs = append(s.hubs, p)
	}
	return nil
}

func newHubPart(h config.Hub) (hubPart, error) {
	c, err := clients.HubConfig(h)
	if err != nil {
		return hubPart{}, err
	}
	spawnerToken, err := h.SpawnerToken()
	if err != nil {
		return hubPart{}, err
	}
	p := hubPart{cfg: h, client: hub.New(c)}
	p.server = hubs.Hub{
		Name: h.Name, APIURL: c.APIURL, CA: c.CA, SpawnerToken: spawnerToken, Admins: h.AdminUsers,
		Identify:    p.client.Identify,
		PagesPrefix: h.PagesPrefix(), Activity: !c.Token.Empty(),
	}
	if !c.Token.Empty() {
		p.server.Servers = p.client
	}
	p.server.OutpostAddress = h.Outpost.Address
	for _, known := range h.Outpost.Credentials {
		password, err := known.Password()
		if err != nil {
			return hubPart{}, err
		}
		p.server.Outpost = append(p.server.Outpost, hubs.Credential{Username: known.Username, Password: password})
	}
	if p.server.PagesPrefix != "" {
		p.server.OAuth = hub.OAuth{Client: p.client, Redirect: p.server.PagesPrefix + "oauth_callback"}
	}
	return p, nil
}

func serverHubs(parts []hubPart) []hubs.Hub {
	var hubs []hubs.Hub
	for _, p := range parts {
		hubs = append(hubs, p.server)
	}
	return hubs
}

// tellRetired says what is kept for users of hubs that are not configured any more: nobody else would ever see it.
func (s *service) tellRetired(ctx context.Context) {
	all, err := s.engine.List(ctx, spawner.Caller{System: true})
	if err != nil {
		return
	}
	kept := map[string]int{}
	for _, w := range all {
		kept[w.Hub]++
	}
	for _, p := range s.hubs {
		delete(kept, p.cfg.Name)
	}
	for hub, n := range kept {
		s.log.Warn(
			"a hub is not configured any more, and has sessions and jobs: configure it again to end or discard them",
			"hub", hub, "count", n,
		)
	}
}

// announceStart tells a hub what happens in a start that it asked for.
func (s *service) announceStart(ctx context.Context, w spawner.Workload, secrets control.Env) {
	hubs := map[string]hubsync.Hub{}
	for _, p := range s.hubs {
		hubs[p.cfg.Name] = p.client
	}
	h := hubsync.StartWebhook{Hubs: hubs, Engine: s.workloads, Logger: s.log}
	h.Tell(ctx, w, secrets)
}

const (
	unknownPoll = 5 * time.Minute  // between two looks at the Hub's servers
	unknownAge  = 30 * time.Minute // of a session that the Hub does not know: a younger one may be on its way
)

// syncer keeps a hub and the engine in agreement, as far as the service has a token of its own there.
func (s *service) syncer(p hubPart) *hubsync.Syncer {
	cfg := hubsync.Config{
		Name: p.cfg.Name, Hub: p.client, Engine: s.workloads, Activity: p.server.Activity,
		Age:  unknownAge,
		Stop: p.cfg.UnknownSessions.Action == config.UnknownStop, FlavorsURL: p.cfg.Outpost.FlavorsURL, Logger: s.log,
		Flavors: func() any { return s.server.Outpost.Flavors(p.cfg.Name) },
		Groups:  p.groups, GroupsEvery: time.Duration(s.cfg.HubGroups.PollInterval),
	}
	if p.server.Activity && p.cfg.UnknownSessions.Action != config.UnknownOff {
		cfg.Every = unknownPoll
	}
	return hubsync.New(cfg)
}
