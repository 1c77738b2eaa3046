package docker

import (
	"context"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
)

// containerID is how an engine writes a container's ID in the name of a control group: as the name itself, or between
// "docker-" and ".scope" where systemd keeps the groups.
var containerID = regexp.MustCompile(`^(?:docker-)?([0-9a-f]{64})(?:\.scope)?$`)

// Containers reads a file /proc/<pid>/cgroup and returns the IDs of the containers that the process may be in, the
// outermost first. An engine may run in a container of another engine, and a container may hold groups of its own.
func Containers(cgroup string) []string {
	var ids []string
	seen := map[string]bool{}
	for line := range strings.Lines(cgroup) {
		_, group := parseGroup(line)
		for part := range strings.SplitSeq(group, "/") {
			if m := containerID.FindStringSubmatch(part); m != nil && !seen[m[1]] {
				seen[m[1]] = true
				ids = append(ids, m[1])
			}
		}
	}
	return ids
}

// parseGroup takes a line "hierarchy:controllers:path" apart. In version 2 of control groups no controllers are named.
func parseGroup(line string) (controllers []string, group string) {
	fields := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
	if len(fields) < 3 {
		return nil, ""
	}
	return strings.Split(fields[1], ","), fields[2]
}

// mostWhose bounds what is remembered of containers.
const mostWhose = 4096

// WorkloadOf returns the workload of a container, by its whole ID; empty when it is none of this instance's, or when
// the engine cannot be asked.
func (b *Backend) WorkloadOf(container string) spawner.ID {
	b.owned.Lock()
	defer b.owned.Unlock()
	if id, known := b.whose[container]; known {
		return id
	}
	ctx, cancel := context.WithTimeout(context.Background(), shortly)
	defer cancel()
	c, found, err := b.inspect(ctx, container)
	if err != nil {
		return ""
	}
	var id spawner.ID
	if found && c.ID == container && b.owns(c, spawner.ID(c.Config.Labels[labelID])) {
		id = spawner.ID(c.Config.Labels[labelID])
	}
	if len(b.whose) >= mostWhose {
		clear(b.whose)
		clear(b.groups)
	}
	b.whose[container] = id
	return id
}

// Holder returns the workload that a process of this host belongs to, by its file /proc/<pid>/cgroup; empty when it is
// none of ours.
func (b *Backend) Holder(cgroup string) spawner.ID {
	for _, container := range Containers(cgroup) {
		if id := b.WorkloadOf(container); id != "" && b.inside(cgroup, container) {
			return id
		}
	}
	return ""
}

// inside reports whether a process is in a container's own control group. A group may only have the container's name: a
// user of the host to whom systemd has given groups of her own calls them what she likes, and what she runs there is
// not the workload's.
func (b *Backend) inside(cgroup, container string) bool {
	group := groupOf(cgroup, container)
	b.owned.Lock()
	known := b.groups[container]
	b.owned.Unlock()
	if group == "" || group == known {
		return group != ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), shortly)
	defer cancel()
	c, found, err := b.inspect(ctx, container)
	if err != nil || !found || !c.State.Running {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid))
	if err != nil {
		return false
	}
	own := groupOf(string(text), container)
	b.owned.Lock()
	b.groups[container] = own
	b.owned.Unlock()
	return group == own
}

// Cgroup returns the path, below the hierarchy's mount point, of the control group that holds all processes of a
// running workload.
func (b *Backend) Cgroup(ctx context.Context, id spawner.ID) (string, error) {
	c, found, err := b.find(ctx, id)
	if err != nil {
		return "", err
	}
	if !found || !c.State.Running {
		return "", errs.New(errs.Conflict, "look for the control group of %s: it does not run", id)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid))
	if err != nil {
		return "", fmt.Errorf("look for the control group of %s: %w", id, err)
	}
	group := groupOf(string(text), c.ID)
	if group == "" {
		return "", errs.New(
			errs.Unavailable, "look for the control group of %s: its first process is in none of its container", id,
		)
	}
	return group, nil
}

// groupOf finds a container's own group in a process's file: in the one hierarchy of version 2, or else in that of
// memory. The process may be in a group below.
func groupOf(cgroup, container string) string {
	found := ""
	for line := range strings.Lines(cgroup) {
		controllers, group := parseGroup(line)
		unified := slices.Contains(controllers, "")
		if !unified && !slices.Contains(controllers, "memory") {
			continue
		}
		parts := strings.Split(group, "/")
		for i, part := range parts {
			if m := containerID.FindStringSubmatch(part); m != nil && m[1] == container && (found == "" || unified) {
				found = path.Join(parts[:i+1]...)
			}
		}
	}
	return found
}
