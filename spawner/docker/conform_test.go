package docker

import (
	"strings"
	"testing"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func TestConforms(t *testing.T) {
	t.Parallel()
	conforms(t, newWorld(t))
}

func TestConformsOverContainerdsStore(t *testing.T) { conforms(t, containerdWorld(t)) }

func conforms(t *testing.T, w world) {
	spawnertest.Run(t, func(t *testing.T) spawnertest.Subject {
		return spawnertest.Subject{
			Backend: w.again(t, w.cfg),
			Launch:  func(t *testing.T) spawner.Launch { return w.launch(t, "") },
			Again:   func(t *testing.T) spawner.Backend { return w.again(t, w.cfg) },
			Runs: func(t *testing.T, id spawner.ID) int {
				return strings.Count(w.text(t, id, spawnertest.RunsFile), "\n")
			},
		}
	})
}
