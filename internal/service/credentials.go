package service

import (
	"context"
	"errors"
	"fmt"

	"slipway/hubapi/server/api"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/credentials"
	"slipway/internal/identity"
	"slipway/internal/metrics"
	"slipway/internal/secret"
	"slipway/internal/service/clients"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// credentialParts keep users' tokens and proxies, and bring them to workloads. Both are nil where the site has none.
type credentialParts struct {
	manager     *credentials.Manager
	distributor *credentials.Distributor
}

// makeCredentials makes what keeps users' credentials. What it asks of issuers, it asks later: one that is down keeps
// no service from starting.
func (s *service) makeCredentials(ctx context.Context) error {
	c := s.cfg.Credentials
	if len(c.Issuers) == 0 && c.X509.Trust == "" {
		return nil
	}
	cfg := credentials.Config{
		Store: s.store, Sealer: s.box, Elements: audiencesOf(s.cfg.Data.Storage), Hub: s.hubsToken, Whose: s.whose,
		Logger: s.log,
	}
	for _, i := range c.Issuers {
		client, err := clients.Issuer(i, s.rules.Claims(i.Name)...)
		if err != nil {
			return fmt.Errorf("issuer %s: %w", i.Name, err)
		}
		cfg.Sources = append(cfg.Sources, credentials.Source{Name: i.Name, Issuer: client, Hub: i.HubKey != ""})
	}
	var err error
	if cfg.Proxy, err = proxyCheck(c.X509, s.log); err != nil {
		return err
	}
	if s.held.manager, err = credentials.New(ctx, cfg); err != nil {
		return err
	}
	s.held.distributor = credentials.NewDistributor(credentials.DistributorConfig{
		Manager: s.held.manager, Owner: s.ownerOf, Send: s.sendCredentials,
		Tell:   func(ctx context.Context, id, text string) { s.engine.Tell(ctx, spawner.ID(id), text) },
		Logger: s.log,
	})
	return nil
}

// audiencesOf returns the storage elements that take tokens of their own.
func audiencesOf(storage []config.StorageElement) []credentials.Element {
	var list []credentials.Element
	for _, e := range storage {
		if e.Issuer != "" {
			list = append(list, credentials.Element{
				Name: e.Name, Issuer: e.Issuer, Audience: e.Audience, Scopes: e.Scopes,
			})
		}
	}
	return list
}

// hubsToken returns the refresh token of an issuer that a user's Hub has for her. Users of one realm may have several
// Hubs: the first that has one counts.
func (s *service) hubsToken(ctx context.Context, principal, name string) (secret.Text, error) {
	key := ""
	for _, i := range s.cfg.Credentials.Issuers {
		if i.Name == name {
			key = i.HubKey
		}
	}
	var failed []error
	for _, p := range s.hubs {
		if key == "" || s.realms[p.cfg.Name] != identity.RealmOf(principal) || p.cfg.TokenFile == "" {
			continue
		}
		token, err := p.client.AuthState(ctx, identity.UserOf(principal), key)
		if err == nil && !token.Empty() {
			return token, nil
		}
		failed = append(failed, err)
	}
	return secret.Text{}, errors.Join(failed...)
}

// whose says by which rule of the site's a credential is a user's.
func (s *service) whose(principal string, h credentials.Holder) (string, error) {
	if h.Kind == credentials.Proxy {
		return s.rules.Certificate(principal, h.Name)
	}
	return s.rules.Subject(principal, h.Issuer, h.Claims)
}

// ownerOf returns the word for a workload's owner.
func (s *service) ownerOf(ctx context.Context, id string) (string, error) {
	w, err := s.engine.Get(ctx, spawner.Caller{System: true}, spawner.ID(id))
	return s.principal(w.Hub, w.Owner), err
}

// sendCredentials brings files to a workload's own agent, over its link.
func (s *service) sendCredentials(ctx context.Context, id string, files []credentials.File) error {
	all := control.Credentials{Files: []control.Credential{}}
	for _, f := range files {
		all.Files = append(all.Files, control.Credential{
			Name: f.Name, Data: control.Hidden(f.Data.Reveal()), Mark: f.Issued.UnixNano(),
		})
	}
	return agents{s.links}.client(spawner.ID(id)).PutCredentials(ctx, all)
}

// linkChanged tells all who look after workloads that the link to an agent has come up or gone down.
func (s *service) linkChanged(ctx context.Context, id string, up bool) {
	if s.held.distributor != nil {
		s.held.distributor.LinkChanged(id, up)
	}
	s.engine.LinkChanged(ctx, spawner.ID(id), up)
}

// userOf names the user of a workload; one that is not known is a user of its own.
func (s *service) userOf(id string) string {
	w, err := s.engine.Get(context.Background(), spawner.Caller{System: true}, spawner.ID(id))
	if err != nil {
		return id
	}
	return w.Hub + "\x00" + string(w.Owner)
}

// agents are what the engine speaks to: where users have credentials, those are there before their programs start.
func (s *service) agents() engine.Agents {
	if s.held.distributor == nil {
		return agents{s.links}
	}
	return provided{agents{s.links}, s.held.distributor}
}

type provided struct {
	agents
	distributor *credentials.Distributor
}

// Agent returns the client of a workload's agent.
func (p provided) Agent(id spawner.ID) engine.Agent {
	return providing{p.client(id), p.distributor, string(id)}
}

type providing struct {
	*control.Client
	distributor *credentials.Distributor
	id          string
}

// Launch starts the app.
func (p providing) Launch(ctx context.Context, app control.App) error {
	p.distributor.Bring(ctx, p.id)
	return p.Client.Launch(ctx, app)
}

// programsEnv names the token's file to the programs of workloads, whether or not it is there yet: an environment
// cannot be changed later. The proxy's the agent names, which sees whether there is one.
func (s *service) programsEnv() map[string]string {
	if len(s.cfg.Credentials.Issuers) == 0 {
		return nil
	}
	return map[string]string{control.TokenFileEnv: control.TokenFile}
}

// doors returns what keeps users' credentials to the API; nil where there is none.
func (c credentialParts) doors() api.UserCredentials {
	if c.manager == nil {
		return nil
	}
	return c.manager
}

// metrics returns the numbers; nil where there are none.
func (c credentialParts) metrics() func() metrics.Credentials {
	if c.manager == nil {
		return nil
	}
	return func() metrics.Credentials { return metrics.Credentials(c.manager.Stats()) }
}

func (c credentialParts) run(ctx context.Context, start func(func() error)) {
	if c.manager != nil {
		start(func() error { return c.manager.Run(ctx) })
		start(func() error { return c.distributor.Run(ctx) })
	}
}
