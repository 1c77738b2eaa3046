// Package place has the words for where a workload runs, on this host or on another one: what its owner reads of a
// start there, and of one that has failed. It promises that this is asked at one place. It must not decide what is done.
package place

import (
	"cmp"
	"fmt"
	"time"

	"slipway/spawner"
)

// Place is where a workload runs.
type Place interface {
	// Process names what a workload is there, and Vessel likewise, with what is in it.
	Process() string
	Vessel(k spawner.Kind) string
	// Opening says that the backend, which people call at, is asked to start a workload.
	Opening(k spawner.Kind, at string) string
	// Leased says what a workload holds now, or asks for.
	Leased(w *spawner.Workload, at, resources string) string
	// Gone and Mute say that a workload was removed outside Slipway, or that its agent was not heard within the limit
	// of a local or a remote start.
	Gone(at string) string
	Mute(local, remote time.Duration, host string) (reason, remedy string)
}

// Of returns where a workload runs.
func Of(w *spawner.Workload) Place {
	if w.Remote {
		return elsewhere{}
	}
	return here{}
}

// Silent says that the backend, which people call at, does not answer.
func Silent(at string) string {
	return "The backend " + at + " does not answer; trying again. If this lasts, tell your administrator"
}

// here is this host.
type here struct{}

func (here) Process() string { return "container" }

func (h here) Vessel(k spawner.Kind) string {
	if k.Batch() {
		return "job's " + h.Process()
	}
	return h.Process()
}

func (h here) Opening(k spawner.Kind, _ string) string { return "Starting the " + h.Vessel(k) }

func (here) Leased(w *spawner.Workload, _, resources string) string {
	words := "Leased " + resources
	if w.Slice != nil {
		words += ", and " + w.Slice.String()
	}
	if w.Lender != "" {
		words += ", borrowed while its owner is away: it may be called back"
	}
	return words
}

func (here) Gone(string) string { return "its container is gone: it was removed outside Slipway" }

func (here) Mute(limit, _ time.Duration, _ string) (reason, remedy string) {
	return fmt.Sprintf("its agent did not come up within %s", limit),
		"tell your administrator: `slipway doctor` and the container's log say more"
}

// elsewhere is a host that a Remote has.
type elsewhere struct{}

func (elsewhere) Process() string { return "batch job" }

func (p elsewhere) Vessel(spawner.Kind) string { return p.Process() }

func (elsewhere) Opening(_ spawner.Kind, at string) string { return "Submitting it to " + at }

func (elsewhere) Leased(_ *spawner.Workload, at, resources string) string {
	return "It is its turn: it asks " + at + " for " + resources
}

func (elsewhere) Gone(at string) string {
	return fmt.Sprintf("it is gone from %s: it was removed outside Slipway", at)
}

func (elsewhere) Mute(_, limit time.Duration, host string) (reason, remedy string) {
	return fmt.Sprintf(
		"its agent on %s did not reach the service within %s", cmp.Or(host, "its host"), limit,
	), "tell your administrator: the host may have no way to the service's address"
}

// Queued says how a batch system, which people call at, has a workload in its queue.
func Queued(seen spawner.Observation, at string) string {
	verb, why := "Queued at ", seen.Detail
	if seen.Existence == spawner.Held {
		verb, why = spawner.HeldAt, seen.Reason
	}
	if why == "" {
		return verb + at
	}
	return verb + at + ": " + why
}

// Evicted says that a workload has lost its place on a host, and what becomes of it then.
func Evicted(host, why, then string) string {
	text := "It was evicted from " + host
	if why != "" {
		text += " (" + why + ")"
	}
	return text + ": it begins anew" + then
}

// Software says in what a workload runs, as its owner knows it: the image that they chose, or an environment that was
// frozen.
func Software(w *spawner.Workload) string {
	if w.Kept == "" && w.Spec.Environment == "" {
		return "image"
	}
	return "environment"
}
