package local

import (
	"context"
	"fmt"
)

// Processes gives the processes of all jobs that run.
func (b *Backend) Processes(context.Context) ([]int, error) {
	names, err := b.groups.names()
	if err != nil {
		return nil, fmt.Errorf("list the processes of local jobs: %w", err)
	}
	var out []int
	for _, name := range names {
		if !validID.MatchString(name) {
			continue
		}
		pids, err := b.groups.group(name).pids()
		if err != nil {
			return nil, fmt.Errorf("list the processes of job %s: %w", name, err)
		}
		out = append(out, pids...)
	}
	return out, nil
}
