package htcondor

import (
	"testing"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	spawnertest.Run(t, func(t *testing.T) spawnertest.Subject {
		w := newWorld(t)
		return spawnertest.Subject{
			Backend: w.backend(t),
			Launch:  func(t *testing.T) spawner.Launch { return w.launch(t) },
			Again:   func(t *testing.T) spawner.Backend { return w.backend(t) },
			Remote:  true, Parallel: true,
			Unfit: func(t *testing.T) spawner.Launch {
				l := w.launch(t)
				l.Spec.Resources.CPUs = 1000
				return l
			},
		}
	})
}
