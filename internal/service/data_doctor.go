package service

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/service/clients"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// dataDoctor is server.DataDoctor: it says what sessions and jobs are to look at, and remembers what sessions found.
type dataDoctor struct {
	cfg     config.Config
	service *service

	sessions dataLooks

	mu    sync.Mutex
	looks map[string]hubapi.IssuerLook // at issuers, of a moment ago
	at    map[string]time.Time         // when that was
	turns map[string]chan struct{}     // of who asks an issuer
}

const (
	bucketReports = "data-reports"
	issuerEvery   = 10 * time.Second // between two looks at an issuer, whoever asks
)

// makeDoctor forgets what was found in sessions that are gone.
func (s *service) makeDoctor(ctx context.Context) error {
	s.doctor = &dataDoctor{
		cfg: s.cfg, service: s, looks: map[string]hubapi.IssuerLook{}, at: map[string]time.Time{},
		turns: map[string]chan struct{}{},
	}
	for _, i := range s.cfg.Credentials.Issuers {
		s.doctor.turns[i.Name] = make(chan struct{}, 1)
	}
	for r, err := range s.store.All(ctx, bucketReports) {
		if err != nil {
			return err
		}
		s.doctor.sessions.know(spawner.ID(r.Key))
	}
	return s.doctor.forget(ctx)
}

// forget drops what was found in sessions that are gone.
func (d *dataDoctor) forget(ctx context.Context) error {
	gone := d.sessions.drop(func(id spawner.ID) bool {
		_, err := d.service.engine.Get(ctx, spawner.Caller{System: true}, id)
		return errs.Is(err, errs.NotFound)
	})
	for _, id := range gone {
		if err := d.service.store.Delete(ctx, bucketReports, string(id)); err != nil {
			d.sessions.know(id) // to try again
			return err
		}
	}
	return nil
}

// Plan is server.DataDoctor's.
func (d *dataDoctor) Plan(ctx context.Context, w spawner.Workload) hubapi.DataPlan {
	c := spawner.Caller{User: w.Owner, Hub: w.Hub, Workload: w.ID}
	plan := hubapi.DataPlan{
		Now: time.Now().UTC(), User: string(w.Owner), Remote: w.Remote,
		CVMFS:   slices.Clone(d.cfg.Data.CVMFS.Repositories),
		Storage: []hubapi.DataElement{}, Issuers: []hubapi.DataIssuer{}, Silent: []string{},
	}
	if !w.Remote {
		plan.Silent = d.service.cvmfs.Silent()
	}
	for i, s := range d.service.storage.List(ctx, c) {
		e := d.cfg.Data.Storage[i]
		one := hubapi.DataElement{Storage: s, Audience: e.Audience, Scopes: e.Scopes, Token: "token-" + e.Name}
		if e.Issuer == "" {
			one.Token = "token"
		}
		plan.Storage = append(plan.Storage, one)
	}
	d.addHeld(ctx, w, &plan)
	return plan
}

// addHeld adds what the service keeps for the user.
func (d *dataDoctor) addHeld(ctx context.Context, w spawner.Workload, plan *hubapi.DataPlan) {
	if d.service.held.manager == nil {
		return
	}
	held, err := d.service.held.manager.List(ctx, d.service.principal(w.Hub, w.Owner))
	if err != nil {
		d.service.log.Warn("what a user has of credentials is not known", "id", w.ID, "err", err)
	}
	for _, entry := range held {
		if entry.Name == hubapi.ProxyCredential {
			plan.Proxy, plan.VO = true, entry.VO
		}
		for _, i := range d.cfg.Credentials.Issuers {
			if i.Name == entry.Name {
				plan.Issuers = append(plan.Issuers, hubapi.DataIssuer{Name: i.Name, URL: i.URL})
			}
		}
	}
}

// Issuer is server.DataDoctor's. However many ask, the issuer is asked every few seconds at the most.
func (d *dataDoctor) Issuer(ctx context.Context, name string) (hubapi.IssuerLook, error) {
	i := slices.IndexFunc(d.cfg.Credentials.Issuers, func(i config.Issuer) bool { return i.Name == name })
	if i < 0 {
		return hubapi.IssuerLook{}, errs.New(errs.NotFound, "there is no issuer %q here", name)
	}
	select {
	case d.turns[name] <- struct{}{}:
		defer func() { <-d.turns[name] }()
	case <-ctx.Done():
		return hubapi.IssuerLook{}, ctx.Err()
	}
	d.mu.Lock()
	look, at := d.looks[name], d.at[name]
	d.mu.Unlock()
	if time.Since(at) < issuerEvery {
		return look, nil
	}
	ahead, err := clients.IssuerAhead(ctx, d.cfg.Credentials.Issuers[i])
	if ctx.Err() != nil {
		return hubapi.IssuerLook{}, ctx.Err()
	}
	look = hubapi.IssuerLook{Ahead: ahead.Round(time.Second).Seconds()}
	if err != nil {
		look = hubapi.IssuerLook{Trouble: errs.Brief(err)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks[name], d.at[name] = look, time.Now()
	return look, nil
}

// Keep is server.DataDoctor's. What is amiss is told to the session's people, once. What others found that are gone by
// now is dropped, so that reports never are more than there were sessions since.
func (d *dataDoctor) Keep(ctx context.Context, w spawner.Workload, r hubapi.DataReport) error {
	if err := d.forget(ctx); err != nil {
		return err
	}
	words := complaint(r)
	tell := d.sessions.ended(w.ID, words, time.Now())
	if err := d.service.store.Put(ctx, bucketReports, string(w.ID), r); err != nil {
		return err
	}
	if tell {
		d.service.engine.Mention(w.ID, words)
	}
	return nil
}

// complaint names what does not work in one line; empty: everything does.
func complaint(r hubapi.DataReport) string {
	var first *hubapi.DataCheck
	n := 0
	for i, c := range r.Checks {
		if c.Result == hubapi.CheckFail {
			n++
			if first == nil {
				first = &r.Checks[i]
			}
		}
	}
	more := ""
	switch n {
	case 0:
		return ""
	case 1:
	case 2:
		more = "; 1 more check fails"
	default:
		more = fmt.Sprintf("; %d more checks fail", n-1)
	}
	return fmt.Sprintf("Your data: %s: %s%s. The session's page, and `slipway doctor data` in it, say what to do", first.Check, first.Finding, more)
}

// Report is server.DataDoctor's.
func (d *dataDoctor) Report(ctx context.Context, id spawner.ID) (r hubapi.DataReport, err error) {
	err = d.service.store.Get(ctx, bucketReports, string(id), &r)
	running := d.sessions.running(id, time.Now())
	if errs.Is(err, errs.NotFound) {
		if !running {
			return r, errs.New(errs.NotFound, "nothing has looked at the data of %s", id).With("`slipway doctor data` does, inside the session")
		}
		err, r.Checks = nil, []hubapi.DataCheck{}
	}
	r.Running = running
	return r, err
}

// Again is server.DataDoctor's. One look that goes on is as good as another, and there is one a minute: each writes and
// reads on the storage.
func (d *dataDoctor) Again(ctx context.Context, id spawner.ID) error {
	begins, wait := d.sessions.begin(id, time.Now())
	if wait > 0 {
		return errs.New(errs.Conflict, "the data of %s was looked at a moment ago", id).
			With(fmt.Sprintf("try again in %d s, or run `slipway doctor data` inside the session", int(wait.Seconds())+1))
	}
	if !begins {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redial)
	defer cancel()
	err := (agents{d.service.links}).client(id).Doctor(ctx)
	if err != nil {
		d.sessions.failed(id)
	}
	return err
}

// looking has the apps of sessions be launched with the program that looks at their data, where there is something to
// look at.
func (s *service) looking(to engine.Agents) engine.Agents {
	d := s.cfg.Data
	if len(d.CVMFS.Repositories) == 0 && len(d.Storage) == 0 && len(s.cfg.Credentials.Issuers) == 0 &&
		s.cfg.Credentials.X509.Trust == "" {
		return to
	}
	return lookers{to}
}

type lookers struct{ engine.Agents }

// Agent returns the client of a workload's agent.
func (l lookers) Agent(id spawner.ID) engine.Agent {
	if id.OfJob() {
		return l.Agents.Agent(id)
	}
	return looker{l.Agents.Agent(id)}
}

type looker struct{ engine.Agent }

// Launch starts the app.
func (l looker) Launch(ctx context.Context, app control.App) error {
	app.Doctor = []string{control.Program, "doctor", "data", "--quiet"}
	return l.Agent.Launch(ctx, app)
}
