package docker

import (
	"context"
	"errors"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"slipway/internal/errs"
)

// leastAPI is the oldest interface of an engine that has all that is used here.
const leastAPI = "1.40"

const driverRemedy = `put {"storage-driver": "overlay2"} into /etc/docker/daemon.json and restart the engine`

// Check says what the engine lacks, all of it at once.
func (b *Backend) Check(ctx context.Context) error {
	ping, err := b.client.Ping(ctx, client.PingOptions{})
	if err != nil {
		return b.explain(err, "ask the Docker Engine")
	}
	if versions.LessThan(ping.APIVersion, leastAPI) {
		return errs.New(errs.Missing, "the Docker Engine speaks API %s, %s is needed", ping.APIVersion, leastAPI).
			With("install Docker 19.03 or newer")
	}
	info, err := b.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return b.explain(err, "ask the Docker Engine what it can do")
	}
	return errors.Join(lacks(info.Info), b.checkNetwork(ctx), checkSources(b.cfg.Mounts))
}

// OutlivesRestart reports whether sessions run on while the engine restarts.
func (b *Backend) OutlivesRestart(ctx context.Context) (bool, error) {
	info, err := b.client.Info(ctx, client.InfoOptions{})
	return info.Info.LiveRestoreEnabled, err
}

// lacks reads what an engine says of itself.
func lacks(info system.Info) error {
	const cgroups = "turn on the cgroup controllers memory, pids and cpu in the kernel's command line"
	var problems []error
	need := func(ok bool, what, remedy string) {
		if !ok {
			problems = append(problems, errs.New(errs.Missing, "the Docker Engine %s", what).With(remedy))
		}
	}
	need(info.OSType == "linux", "runs "+info.OSType+" containers", "use an engine for Linux containers")
	need(info.MemoryLimit, "cannot limit memory", cgroups)
	need(info.PidsLimit, "cannot limit the number of processes", cgroups)
	need(info.CPUCfsQuota, "cannot limit the use of CPUs", cgroups)
	a := abilityOf(info)
	need(a.runtime != "" || !vendors(info.DefaultRuntime, info), "gives GPUs to every container (its runtime is "+
		info.DefaultRuntime+") and has no "+plainRuntime+" beside",
		"set `default-runtime` to runc in /etc/docker/daemon.json and restart the engine")
	return errors.Join(problems...)
}

func (b *Backend) checkNetwork(ctx context.Context) error {
	there, err := b.networks(ctx)
	if err != nil || len(there) > 0 || b.ownNet { // the first session makes its own
		return err
	}
	return b.noNetwork()
}
