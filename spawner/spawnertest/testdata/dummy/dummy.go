// Package dummy is a backend that runs nothing: a new backend as TestANewBackend adds it to the tree.
package dummy

import (
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// Backend is a backend in memory.
type Backend struct{ *spawnertest.Fake }

var _ spawner.Backend = Backend{}

// New makes a Backend that holds nothing.
func New() Backend { return Backend{spawnertest.New(spawnertest.Config{Name: "dummy"})} }
