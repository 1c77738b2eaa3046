package sshgate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// place is where a login gets to: a session that is active, or a server that is to be started.
type place struct {
	join  *spawner.Workload
	again *spawner.Workload // the session that is to be started again, as it was; nil: it is a new one
	start hubapi.ServerRequest
}

// server names the place's server.
func (p place) server() string {
	if p.join != nil {
		return p.join.Name
	}
	return p.start.Name
}

// choose finds where a target leads, among all sessions of its user and the profiles. A session that was stopped is
// started with what it had, unless it never ran. Names of servers go before those of profiles: they are her own.
func choose(target string, all []spawner.Workload, offers catalog.Catalogue) (place, error) {
	var active, stopped []spawner.Workload
	for _, w := range all {
		switch {
		case !w.Kind.HubServer() || w.Want == spawner.WantGone || w.Phase == spawner.Removing:
		case w.Phase.Active() && w.Want == spawner.WantRunning && w.Phase != spawner.Stopping:
			active = append(active, w)
		default:
			stopped = append(stopped, w)
		}
	}
	named := func(w spawner.Workload) bool { return w.Name == target }
	if w := best(active, named); w != nil {
		return place{join: w}, nil
	}
	if w := best(active, func(w spawner.Workload) bool { return w.Spec.Profile == target }); w != nil && target != "" {
		return place{join: w}, nil
	}
	if w := last(stopped, func(w spawner.Workload) bool { return named(w) && w.Ran }); w != nil {
		if err := offers.Admits(w.Spec.Profile); err != nil {
			return place{}, err
		}
		return place{again: w, start: hubapi.ServerRequest{Name: target}}, nil
	}
	if err := offers.Admits(target); err != nil || target == "" {
		return place{}, err
	}
	if offers.Offered(target) == nil {
		return place{start: hubapi.ServerRequest{Name: target, Options: map[string]any{"profile": target}}}, nil
	}
	return place{}, nowhere(target, append(active, stopped...), offers.Names())
}

// mostTarget is how much of a target that leads nowhere is repeated.
const mostTarget = 60

// nowhere says what there is in the place of what is not.
func nowhere(target string, sessions []spawner.Workload, profiles []string) error {
	shown, more := target, ""
	if len(target) > mostTarget {
		shown, more = strings.ToValidUTF8(target[:mostTarget], ""), "..."
	}
	err := errs.New(
		errs.NotFound, "you have no session %q%s, and there is no profile of this name", shown, more,
	).Naming([]errs.Detail{
		{What: "your sessions: " + names(sessions)},
		{What: "profiles: " + cmp.Or(strings.Join(profiles, ", "), "none")},
	})
	for _, w := range sessions {
		profiles = append(profiles[:len(profiles):len(profiles)], w.Name)
	}
	if i := slices.IndexFunc(profiles, func(name string) bool { return strings.EqualFold(name, target) }); i >= 0 {
		return err.With(fmt.Sprintf("did you mean %q?", profiles[i]))
	}
	return err
}

// best finds the session that fits, a running one before others, and the latest of those.
func best(sessions []spawner.Workload, fits func(spawner.Workload) bool) *spawner.Workload {
	var found *spawner.Workload
	for i, w := range sessions {
		if fits(w) && (found == nil || w.Phase == spawner.Running || found.Phase != spawner.Running) {
			found = &sessions[i]
		}
	}
	return found
}

// last finds the session that fits and came last to where it is.
func last(sessions []spawner.Workload, fits func(spawner.Workload) bool) *spawner.Workload {
	var found *spawner.Workload
	for i, w := range sessions {
		if fits(w) && (found == nil || w.Since.After(found.Since)) {
			found = &sessions[i]
		}
	}
	return found
}

// names lists sessions to their user.
func names(sessions []spawner.Workload) string {
	var out []string
	for _, w := range sessions {
		out = append(out, fmt.Sprintf("%s (%s)", cmp.Or(w.Name, "the default one"), w.Phase))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}
