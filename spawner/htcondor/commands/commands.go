// Package commands knows HTCondor's command line programs: where they find their configuration, how they show whose they
// are, and what their complaints mean. It must not know what they are for.
package commands

import (
	"strings"

	"slipway/internal/errs"
	"slipway/spawner/batch/command"
)

// In returns a runner of HTCondor's commands in a directory; empty: of those on PATH.
func In(dir string) command.Runner {
	return command.Programs{
		System: "HTCondor", Dir: dir, Keep: []string{"CONDOR_CONFIG=", "_CONDOR_"}, Complaints: complaints(),
		Noise:   "Submitting job",
		Install: "install HTCondor here as an access point of the pool, or set htcondor.bin to the directory of its commands",
	}.Run
}

// Showing returns what a command finds in its environment that shows the token in a directory.
func Showing(tokens string) []string {
	return []string{"_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=IDTOKENS", "_CONDOR_SEC_TOKEN_DIRECTORY=" + tokens}
}

// TooManyAtOnce is what is complained of when a submission alone has more jobs than one may.
const TooManyAtOnce = "max_jobs_per_submission"

// UnknownFace is what is complained of when HTCondor does not know who asks.
const UnknownFace = "authenticate"

// uncommitted is what is complained of when the schedd does not take a submission in the end. The reason that a rule of
// the site gives follows; without one it is the schedd's own trouble.
const uncommitted = "failed to commit job submission"

func withoutReason(said string) bool {
	_, reason, found := strings.Cut(said, uncommitted)
	return found && !strings.Contains(reason, ";")
}

func complaints() []command.Complaint {
	const silent = "HTCondor's queue does not answer"
	ask := command.AskAdmin
	return []command.Complaint{
		{
			Fits: withoutReason, Kind: errs.Unavailable, Words: "HTCondor's queue has not taken it", Remedy: ask,
		},
		{
			Text: "exceed max_jobs_per_owner", Kind: errs.NoCapacity,
			Words:  "you have as many jobs in HTCondor's queue as one user may",
			Remedy: "wait until some have ended, or remove some",
		},
		{
			Text: "exceed max_jobs_submitted", Kind: errs.NoCapacity, Words: "HTCondor's queue is full",
			Remedy: "wait until some jobs have ended",
		},
		{
			Text: TooManyAtOnce, Kind: errs.NoCapacity, Words: "these are more jobs than may be submitted at once",
			Remedy: ask,
		},
		{
			Text: uncommitted, Kind: errs.Forbidden, Words: "the site does not take this job",
			Remedy: "ask for what it allows, or tell your administrator",
		},
		{
			Text: "owner is disabled", Kind: errs.Forbidden, Words: "the site has barred you from its queue",
			Remedy: "tell your administrator",
		},
		{Text: "failed to connect", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "can't find address", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "unable to locate", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "couldn't contact", Kind: errs.Unavailable, Words: "HTCondor does not answer", Remedy: ask},
		{Text: "failed to fetch ads", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "communication error", Kind: errs.Unavailable, Words: "HTCondor does not answer", Remedy: ask},
		{Text: UnknownFace, Kind: errs.Unavailable, Words: "HTCondor does not let the service in", Remedy: ask},
	}
}
