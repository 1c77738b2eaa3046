package docker

import (
	"context"

	"github.com/moby/moby/client"
)

// Processes returns the first process of each workload that runs, by its id on the engine's host.
func (b *Backend) Processes(ctx context.Context) ([]int, error) {
	list, err := b.client.ContainerList(ctx, client.ContainerListOptions{Filters: b.ours()})
	if err != nil {
		return nil, b.explain(err, "list the containers of instance %s", b.cfg.Instance)
	}
	var out []int
	for _, item := range list.Items {
		c, found, err := b.inspect(ctx, item.ID)
		if err != nil {
			return nil, err
		}
		if found && c.State.Pid > 0 && c.Config.Labels[labelID] != "" {
			out = append(out, c.State.Pid)
		}
	}
	return out, nil
}
