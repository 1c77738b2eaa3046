package sessions

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
	"time"
)

// StartSession starts a session and returns at once; Await and Events tell how it goes on.
//
// A session stays the same one over its stops and starts: when this user's session of that name, image and environment
// was stopped before, it is started again with its changes. One that is still active from an earlier launch is stopped
// first: the Hub has given it up, and its credentials with it.
func (s *Sessions) StartSession(
	ctx context.Context, c spawner.Caller, r spawner.SessionRequest,
) (spawner.Workload, error) {
	if !c.MayStart() {
		return spawner.Workload{}, errs.New(errs.Forbidden, "only a hub's spawner starts sessions").
			With("start your server in JupyterHub")
	}
	if !r.Kind.HubServer() {
		return spawner.Workload{}, errs.Bad("kind", r.Kind, "a kind of server, such as lab")
	}
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	r, err := s.Examined(ctx, c.Hub, r)
	if err != nil {
		return spawner.Workload{}, err
	}
	var mine *ask
	defer func() { s.unask(mine) }()
	for {
		w, before, err := s.tryStart(ctx, c.Hub, r, &mine)
		if err != nil || before == nil {
			return s.engine.Vouch(ctx, w, err)
		}
		_, err = s.engine.Await(
			ctx, c, before.ID, func(w spawner.Workload) bool { return !w.Phase.Active() || w.Launch != before.Launch },
		)
		if ctx.Err() != nil || (err != nil && !errs.Is(err, errs.NotFound)) {
			return spawner.Workload{}, errs.New(
				errs.Unavailable, "the previous start of %s does not end: %w", before.ID, err,
			).With("try again in a minute")
		}
	}
}

// Examined returns a request with its backend and the digest of its environment, once nothing is known that stands
// against it: what is wrong is said where the start is asked for.
func (s *Sessions) Examined(ctx context.Context, hub string, r spawner.SessionRequest) (spawner.SessionRequest, error) {
	r.Backend = cmp.Or(r.Backend, s.engine.SessionBackend())
	if err := errors.Join(s.checkSession(r), s.admits(hub, r.User, r.Spec.Profile), s.engine.Remembers()); err != nil {
		return r, err
	}
	digest, err := s.startsFrom(ctx, hub, r)
	if err != nil {
		return r, err
	}
	r.Spec.Environment = digest
	if _, err := s.cfg.Account(ctx, hub, r.User); err != nil {
		return r, err
	}
	return r, s.engine.Judge(ctx, s.SessionOf(hub, r))
}

// startsFrom returns the digest of the environment that a session is to start from, empty for none. A session that was
// started from it before may go on with it, whatever has become of the environment's names since: its changes lie over
// it.
func (s *Sessions) startsFrom(ctx context.Context, hub string, r spawner.SessionRequest) (digest string, err error) {
	ref := r.Spec.Environment
	if ref == "" {
		return "", nil
	}
	digest, err = s.cfg.Environment(ctx, hub, r.User, ref)
	if !errs.Is(err, errs.NotFound) {
		return digest, err
	}
	v := s.engine.View()
	defer v.End()
	if v.Server(hub, r.User, r.Name, func(e *engine.Entry) bool { return e.Spec.Environment == ref }) != nil {
		return ref, nil
	}
	return "", err
}

// stopPatience is how long a request waits for the end of an earlier start.
const stopPatience = 90 * time.Second

func (s *Sessions) checkSession(r spawner.SessionRequest) error {
	if r.User == "" {
		return errs.Bad("user", "", "the name of a Hub user")
	}
	err := errors.Join(
		spawner.CheckName("user", string(r.User)), spawner.CheckName("server_name", r.Name),
		spawner.CheckLaunch("launch", r.Launch),
	)
	switch {
	case err != nil:
		return err
	case r.Launch == "":
		return errs.Bad("launch", "", "a name for this start, such as a UUID")
	case s.engine.Configured(r.Backend) == nil || r.Backend != s.engine.SessionBackend() && !s.engine.IsRemote(r.Backend):
		return errs.Bad("backend", r.Backend, "a backend that runs sessions; the administrator names it in the profile")
	case s.lacksEnvironments(r.Backend, r.Spec.Environment):
		return errs.New(
			errs.Missing, "backend %s runs sessions in environments, and this service keeps none", r.Backend,
		)
	case len(r.Spec.Argv) == 0:
		return errs.Bad("argv", "[]", "the program to run")
	case r.Spec.Environment != "" && (!s.engine.Thaws() || s.cfg.Environment == nil):
		return errs.New(
			errs.Missing, "start from environment %s: this service keeps no environments", r.Spec.Environment,
		)
	}
	if why := s.engine.NeverFits(r.Backend, r.Spec.Resources); why != "" {
		return errs.New(errs.OverQuota, "this can never start here: %s", why).With("choose a smaller profile")
	}
	if s.engine.IsRemote(r.Backend) {
		return nil // what it asks of GPUs is for judge to say
	}
	return s.engine.CheckGPU(r.Spec.GPU)
}

// seat is a server of a hub, of which one session at most is active.
type seat struct {
	hub  string
	user spawner.User
	name string
}

// ask is a start of a server that is being asked for, by one request or by repetitions of it.
type ask struct {
	seat
	launch   string
	requests int
}

// ask notes that a start is asked for, and reports whether a later one has taken its place: of several starts
// that wait for a session to end, the last is the one that the Hub wants.
func (s *Sessions) ask(hub string, r spawner.SessionRequest, mine **ask) (overtaken bool) {
	of := seat{hub, r.User, r.Name}
	if *mine == nil {
		if s.asks[of] == nil || s.asks[of].launch != r.Launch {
			s.asks[of] = &ask{seat: of, launch: r.Launch}
		}
		*mine = s.asks[of]
		(*mine).requests++
	}
	return s.asks[of] != *mine
}

// unask ends what ask has begun; nil is nothing.
func (s *Sessions) unask(mine *ask) {
	if mine == nil {
		return
	}
	tx := s.engine.Begin()
	defer tx.End()
	if mine.requests--; mine.requests == 0 && s.asks[mine.seat] == mine {
		delete(s.asks, mine.seat)
	}
}

// tryStart starts the session unless an earlier launch is still active: then that one is asked to stop, and given back.
func (s *Sessions) tryStart(
	ctx context.Context, hub string, r spawner.SessionRequest, mine **ask,
) (w spawner.Workload, before *spawner.Workload, err error) {
	tx := s.engine.Begin()
	defer tx.End()
	if err := s.prefixFree(tx.View, hub, r); err != nil {
		return spawner.Workload{}, nil, err
	}
	active := tx.Server(hub, r.User, r.Name, func(e *engine.Entry) bool { return e.Phase.Active() })
	kept := tx.Server(hub, r.User, r.Name, func(e *engine.Entry) bool {
		return e.Kind == r.Kind && e.Backend == r.Backend && e.Phase == spawner.Stopped && e.Want != spawner.WantGone &&
			foundationOf(e.Spec) == foundationOf(r.Spec)
	})
	switch {
	case active != nil && active.Launch == r.Launch:
		return active.Workload, nil, nil
	case active == nil && kept != nil && kept.Launch == r.Launch:
		return kept.Workload, nil, nil // the request is a repetition, and its start has ended already
	case s.ask(hub, r, mine):
		return spawner.Workload{}, nil, errs.New(
			errs.Conflict, "a later start of this server has taken the place of this one",
		)
	case active != nil:
		return s.makeWay(ctx, tx, active)
	}
	if kept != nil && r.Fresh {
		if err := tx.Change(ctx, kept, func(e *engine.Entry) { e.Want = spawner.WantGone }); err != nil {
			return spawner.Workload{}, nil, err
		}
		kept = nil
	}
	w, err = s.Enter(ctx, tx, hub, r, kept)
	return w, nil, err
}

// foundation is what a session's changes lie over. Over another one they would be another tree.
type foundation struct{ image, environment string }

func foundationOf(s spawner.Spec) foundation { return foundation{s.Image, s.Environment} }

// makeWay asks the session of an earlier launch to stop.
func (s *Sessions) makeWay(
	ctx context.Context, tx engine.Tx, e *engine.Entry,
) (w spawner.Workload, before *spawner.Workload, err error) {
	if e.Want == spawner.WantRunning {
		err = tx.Change(ctx, e, func(e *engine.Entry) { e.Want = spawner.WantStopped })
		e.Interrupt()
	}
	copied := e.Workload
	return spawner.Workload{}, &copied, err
}

// prefixFree refuses a path that is another active session's.
func (s *Sessions) prefixFree(v engine.View, hub string, r spawner.SessionRequest) error {
	if e := v.ByPrefix(hub, r.Spec.Prefix); e != nil && (e.Owner != r.User || e.Name != r.Name) {
		return errs.New(errs.Conflict, "the path %s belongs to another session", r.Spec.Prefix).
			With("stop that one first")
	}
	return nil
}

// SessionsOf returns the sessions of one server name of one user, whatever their image, newest first.
func (s *Sessions) SessionsOf(
	_ context.Context, c spawner.Caller, user spawner.User, name string,
) ([]spawner.Workload, error) {
	v := s.engine.View()
	defer v.End()
	var list []spawner.Workload
	for e := range maps.Values(v.Owned(spawner.Principal{Hub: c.Hub, User: user})) {
		if e.Kind.HubServer() && e.Name == name && c.May(e.Workload) {
			list = append(list, e.Workload)
		}
	}
	slices.SortFunc(list, func(a, b spawner.Workload) int { return b.Created.Compare(a.Created) })
	return list, nil
}
