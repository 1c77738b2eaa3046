package service

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fleet"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/launch"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

// TestWhoWaitsForABrokenGPUHoldsUpNobody: one who asks for what only a GPU that is out of service has waits, and those
// who ask for something else are served, in her own line and in others.
func TestWhoWaitsForABrokenGPUHoldsUpNobody(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	s := newGPUSite(t, []string{"H200/mig", "A30/mig"},
		fleet.Rule{Match: "A30", Mode: gpu.MIG, Drain: true}, fleet.Rule{Match: "*", Mode: gpu.MIG})
	crew := spawnertest.NewCrew()
	backend := func(name string) spawner.Backend {
		return spawnertest.New(spawnertest.Config{Name: name, Started: crew.ComeUp, Ended: crew.GoDown})
	}
	account := func(_ context.Context, _ string, u spawner.User) (spawner.Account, error) {
		return spawner.Account{UID: os.Getuid(), GID: os.Getgid(), Login: string(u), Home: "/home/" + string(u)}, nil
	}
	s.start(t, engine.Config{
		Backends: []spawner.Backend{backend("docker"), backend("local")}, Agents: crew, Account: account,
		Launch: launch.Config{Image: func(context.Context, string) (string, error) { return "x.sif", nil }},
	})
	manager := s.engine
	all, err := workloads.New(t.Context(), manager, workloads.Config{
		Account: account, Jobs: "local", Logger: slog.New(slog.DiscardHandler),
		Environment: func(context.Context, string, spawner.User, string) (string, error) { return "sha256:aa", nil },
	})
	must(err)
	ctx, end := context.WithCancel(t.Context())
	crew.Dial(func(id spawner.ID, up bool) { manager.LinkChanged(ctx, id, up) })
	done := make(chan struct{})
	go func() { defer close(done); _ = manager.Run(ctx) }()
	defer func() { end(); <-done }()

	mallory, hub := spawner.Caller{User: "mallory", Hub: "main"}, spawner.Caller{Spawner: true, Hub: "main"}
	broken, whole := gpu.Request{Mode: gpu.MIG, Profile: "4g.24gb"}, gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}
	session := func(user spawner.User, r gpu.Request) spawner.Workload {
		w, err := all.StartSession(ctx, hub, spawner.SessionRequest{User: user, Kind: spawner.Lab, Launch: "l-" + string(user), Spec: spawner.Spec{Argv: []string{"lab"}, SessionSpec: spawner.SessionSpec{Prefix: "/user/" + string(user) + "/"}, GPU: r}})
		must(err)
		return w
	}
	_, err = all.SubmitJob(
		ctx, mallory,
		spawner.JobRequest{Name: "stuck", Spec: spawner.Spec{Environment: "e", Argv: []string{"true"}, GPU: broken}},
	)
	must(err)
	session("mallory", broken)
	for _, user := range []spawner.User{"alice", "bob"} {
		w := session(user, whole)
		soon, stop := context.WithTimeout(ctx, testenv.Hang)
		if _, err := manager.Await(soon, hub, w.ID, func(w spawner.Workload) bool { return w.Phase == spawner.Running }); err != nil {
			now, _ := manager.Get(ctx, spawner.Caller{System: true}, w.ID)
			t.Errorf("%s: %v: %s, %q", user, err, now.Phase, all.Queue(now))
		}
		stop()
	}
}
