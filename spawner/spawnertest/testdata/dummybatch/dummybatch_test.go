package dummybatch

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"slipway/internal/config"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/spawnertest"
)

func TestConforms(t *testing.T) {
	var made atomic.Int64
	key := make([]byte, batch.MinKey)
	except := map[string]string{}
	if os.Geteuid() != 0 {
		except["is ready"] = "it needs root"
	}
	spawnertest.Run(t, func(t *testing.T) spawnertest.Subject {
		dir, agent := t.TempDir(), t.TempDir()
		s := &System{jobs: map[string]batch.Job{}}
		again := func(t *testing.T) spawner.Backend {
			cfg := config.Default()
			cfg.DummyBatch.Enabled = true
			b, err := Over(s, dir, key, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		launch := func(*testing.T) spawner.Launch {
			n := made.Add(1)
			w := spawner.Workload{
				ID: spawner.ID(fmt.Sprintf("j-%016d", n)), Kind: spawner.Job, Owner: "alice", Launch: fmt.Sprintf("l-%d", n),
			}
			return spawner.Launch{
				Workload: w, AgentDir: agent, Account: spawner.Account{UID: Account, GID: Account, Login: "alice", Home: "/home/alice"},
			}
		}
		return spawnertest.Subject{
			Backend: again(t), Launch: launch, Again: again, Remote: true, Except: except,
			Unfit: func(t *testing.T) spawner.Launch {
				l := launch(t)
				l.Spec.Resources.CPUs = 1000
				return l
			},
		}
	})
}

// TestItsOwn: what its row says is what counts for it, and another's does not.
func TestItsOwn(t *testing.T) {
	cfg := config.Default()
	cfg.DummyBatch.Enabled, cfg.HTCondor.Enabled, cfg.HTCondor.HomeDirs, cfg.HTCondor.MaxCPUs = true, true, true, 32
	nodes, limits := cfg.BatchOf("dummybatch"), cfg.EnabledBatch()
	if nodes.HomeDirs || len(nodes.Binds) != 1 || nodes.Binds[0] != "/dummy" || limits["dummybatch"].MaxCPUs != 3 {
		t.Errorf("its nodes are %+v, its limits %+v", nodes, limits["dummybatch"])
	}
	if !cfg.BatchOf(config.BackendHTCondor).HomeDirs || limits[config.BackendHTCondor].MaxCPUs != 32 {
		t.Error("another batch system's are not its own any more")
	}
	if config.BatchSystem("dummybatch") != "Dummy" {
		t.Error("it is not known as a batch system")
	}
}
