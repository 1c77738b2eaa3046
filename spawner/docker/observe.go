package docker

import (
	"fmt"

	"github.com/moby/moby/api/types/container"

	"slipway/spawner"
)

// observe reads an engine's account of a container. A paused one is up: it has processes.
func observe(c container.InspectResponse) spawner.Observation {
	s := c.State
	switch {
	case s.Running || s.Paused || s.Restarting:
		return spawner.Observation{Existence: spawner.Up}
	case s.Status == container.StateCreated:
		return spawner.Observation{Existence: spawner.Created}
	}
	o := spawner.Observation{Existence: spawner.Exited, ExitCode: s.ExitCode}
	switch {
	case s.OOMKilled && s.ExitCode != 0: // with code 0 only some child was killed, and the first process ended well
		o.Reason = fmt.Sprintf("out of memory (limit %.1f GB)", float64(c.HostConfig.Memory)/(1<<30))
		o.Remedy = "start it with more memory, or use less"
	case s.Error != "":
		o.Reason = s.Error
	}
	return o
}
