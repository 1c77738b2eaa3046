package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"slipway/internal/errs"
	"slipway/internal/mounts"
	"slipway/spawner"
)

// valid refuses a mount that cannot work on any host.
func (m Mount) valid() error {
	switch {
	case !filepath.IsAbs(m.Source):
		return errs.Bad("mounts.source", m.Source, "an absolute path")
	case !filepath.IsAbs(m.Target):
		return errs.Bad("mounts.target", m.Target, "an absolute path")
	case m.Propagation != "" && !slices.Contains(mount.Propagations, mount.Propagation(m.Propagation)):
		return errs.Bad("mounts.propagation", m.Propagation, "rprivate, or rslave to see what is mounted later")
	case strings.HasSuffix(m.Propagation, "shared"):
		return errs.Bad(
			"mounts.propagation", m.Propagation, "rslave: with shared, mounts of a workload would reach the host",
		)
	}
	return nil
}

// checkSources sees to it that the mounts' sources are there, and are shared mounts where later mounts are to be seen.
// Those, which may be other machines' and never answer, are not touched.
func checkSources(all []Mount) error {
	var problems []error
	for _, m := range all {
		if strings.HasSuffix(m.Propagation, "slave") {
			problems = append(problems, mounts.CheckShared(m.Source))
		} else if _, err := os.Stat(m.Source); err != nil {
			problems = append(problems, errs.New(errs.Missing, "mount %s: %w", m.Source, err).
				With("create or mount it on this host"))
		}
	}
	return errors.Join(problems...)
}

// shown are the directories of this host that a workload sees beside its own.
func (b *Backend) shown(l spawner.Launch) []Mount {
	all := slices.Clone(b.cfg.Mounts)
	for _, a := range l.Areas {
		all = append(
			all, Mount{Source: a.Source, Target: a.Target, ReadOnly: !a.Write, Propagation: propagation(a.Follows)},
		)
	}
	if l.Storage == "" {
		return all
	}
	return append(all, Mount{Source: l.Storage, Target: "/storage", ReadOnly: true, Propagation: "rslave"})
}

// propagation is the engine's word.
func propagation(follows bool) string {
	if follows {
		return "rslave"
	}
	return ""
}

func homeMount(l spawner.Launch) mount.Mount {
	m := mount.Mount{Type: mount.TypeBind, Source: l.Account.HomeDir, Target: l.Account.Home}
	if l.HomeFollows {
		m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRSlave}
	}
	return m
}

// rehoused reports whether a container has another home than the launch.
func rehoused(l spawner.Launch, c container.InspectResponse) bool {
	return c.HostConfig != nil && slices.ContainsFunc(c.HostConfig.Mounts, func(m mount.Mount) bool {
		return m.Target == l.Account.Home && m.Source != l.Account.HomeDir
	})
}

// labelMounts tells what of the host a container was made to see, where that is anything.
const labelMounts = "slipway.mounts"

// fingerprintOf names mounts; none is the empty name.
func fingerprintOf(all []Mount) string {
	if len(all) == 0 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", all))
	return hex.EncodeToString(sum[:8])
}

// outgrown says why a kept container cannot serve a launch; empty: it can. An engine fixes devices and mounts when it
// makes one.
func (b *Backend) outgrown(p plan, c container.InspectResponse) string {
	switch {
	case !p.suits(c):
		return "the GPU of this start"
	case c.Config.Labels[labelMounts] != fingerprintOf(b.shown(p.Launch)):
		return "what sessions see of this host now"
	case rehoused(p.Launch, c):
		return "where your home is now"
	case c.HostConfig != nil && !sameWords(c.HostConfig.GroupAdd, groupsOf(p.Account)):
		return "the groups that your account has now"
	default:
		return ""
	}
}

// sameWords reports whether two lists have the same words, in whatever order.
func sameWords(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// survey tells the user what is amiss with the mounts, or forbids a start that would wait for one that does not answer.
func (b *Backend) survey(ctx context.Context, l spawner.Launch) error {
	if b.cfg.Outlook == nil {
		return nil
	}
	notes, err := b.cfg.Outlook(ctx)
	for _, note := range notes {
		l.Report(note, -1)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	return nil
}
