package engine

import (
	"cmp"
	"fmt"

	"slipway/spawner"
)

// place is where a workload runs: what differs between this host and another one.
type place interface {
	// process names what a workload is there, and vessel likewise, with what is in it.
	process() string
	vessel(k spawner.Kind) string
	// opening says that the backend, which people call at, is asked to start a workload.
	opening(k spawner.Kind, at string) string
	// leased says what a workload holds now, or asks for.
	leased(e *Entry, at, resources string) string
	// admit opens the door for a workload's agent, which runs as uid.
	admit(a Agents, id spawner.ID, socket string, uid int) error
	// gone and mute say that a workload was removed outside Slipway, or that its agent was not heard.
	gone(at string) string
	mute(l Limits, host string) (reason, remedy string)
}

// place returns where a workload runs.
func (e *Entry) place() place {
	if e.Remote {
		return elsewhere{}
	}
	return here{}
}

// here is this host.
type here struct{}

func (here) process() string { return "container" }

func (h here) vessel(k spawner.Kind) string {
	if k == spawner.Job {
		return "job's " + h.process()
	}
	return h.process()
}

func (h here) opening(k spawner.Kind, _ string) string { return "Starting the " + h.vessel(k) }

func (here) leased(e *Entry, _, resources string) string {
	words := "Leased " + resources
	if e.Slice != nil {
		words += ", and " + e.Slice.String()
	}
	if e.Lender != "" {
		words += ", borrowed while its owner is away: it may be called back"
	}
	return words
}

func (here) admit(a Agents, id spawner.ID, socket string, uid int) error {
	return a.Open(id, socket, uid)
}

func (here) gone(string) string { return "its container is gone: it was removed outside Slipway" }

func (here) mute(l Limits, _ string) (reason, remedy string) {
	return fmt.Sprintf("its agent did not come up within %s", l.Agent),
		"tell your administrator: `slipway doctor` and the container's log say more"
}

// elsewhere is a host that a Remote has.
type elsewhere struct{}

func (elsewhere) process() string { return "batch job" }

func (p elsewhere) vessel(spawner.Kind) string { return p.process() }

func (elsewhere) opening(_ spawner.Kind, at string) string { return "Submitting it to " + at }

func (elsewhere) leased(_ *Entry, at, resources string) string {
	return "It is its turn: it asks " + at + " for " + resources
}

func (elsewhere) admit(a Agents, id spawner.ID, _ string, _ int) error { return a.Expect(id) }

func (elsewhere) gone(at string) string {
	return fmt.Sprintf("it is gone from %s: it was removed outside Slipway", at)
}

func (elsewhere) mute(l Limits, host string) (reason, remedy string) {
	return fmt.Sprintf(
		"its agent on %s did not reach the service within %s", cmp.Or(host, "its host"), l.BootRemote,
	), "tell your administrator: the host may have no way to the service's address"
}
