package docker

import (
	"context"
	"path"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"slipway/internal/gpu/cdi"
)

// plainRuntime is the engine's own runtime, which adds nothing to a container.
const plainRuntime = "runc"

// ability is what an engine can do with GPUs.
type ability struct {
	cdi     cdi.Dir // where it reads descriptions of devices; empty: it knows none
	runtime string  // the one to ask for; empty: its default adds nothing
}

// ability asks the engine each time: it may have been set up otherwise since.
func (b *Backend) ability(ctx context.Context) (ability, error) {
	info, err := b.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return ability{}, b.explain(err, "ask the Docker Engine what it can do")
	}
	return abilityOf(info.Info), nil
}

// abilityOf reads what an engine says of itself. Of several directories the last counts most.
func abilityOf(info system.Info) ability {
	var a ability
	if n := len(info.CDISpecDirs); n > 0 {
		a.cdi = cdi.Dir(info.CDISpecDirs[n-1])
	}
	if _, plain := info.Runtimes[plainRuntime]; plain && vendors(info.DefaultRuntime, info) {
		a.runtime = plainRuntime
	}
	return a
}

// vendors reports whether a runtime is NVIDIA's, which gives a container GPUs by what its environment says.
func vendors(name string, info system.Info) bool {
	return strings.Contains(name, "nvidia") || strings.Contains(path.Base(info.Runtimes[name].Path), "nvidia")
}
