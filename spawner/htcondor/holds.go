package htcondor

import (
	"cmp"
	"fmt"
	"strings"

	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/batch"
)

// hold is what it means that HTCondor holds a job.
type hold struct {
	code   integer
	sub    integer // 0: any
	reason string  // in plain words; HTCondor's own follow
	remedy string
	// over says that the job's run came to an end by it, so that there is nothing to release: it had begun, and is not
	// begun twice.
	over bool
}

const (
	tellAdmin   = "tell your administrator, with these words"
	askRelease  = "ask your administrator to release it, or remove it"
	lessOutput  = "write large files to your home or to a storage, and leave less in the work directory"
	moreMemory  = "ask for more memory: --mem"
	fewerInputs = "send less with the job: put large files where the nodes can read them"
)

// holds is the table of HTCondor's codes, of HoldReasonCode and HoldReasonSubCode. The first that fits is taken.
func holds() []hold {
	return []hold{
		{34, 102, "out of memory", moreMemory, true},
		{34, 104, "out of disk on its machine", lessOutput, true},
		{34, 0, "it used more than it had asked for", "ask for more memory: --mem", true},
		{46, 0, "time limit reached", "ask for more time: --time", true},
		{47, 0, "time limit reached", "ask for more time: --time", true},
		{byHand, 0, "an administrator holds it", askRelease, false},
		{3, 0, "a rule of the site holds it", askRelease, false},
		{5, 0, "a rule of the site holds it, which cannot be judged", tellAdmin, false},
		{26, 0, "a rule of the site holds it", askRelease, false},
		{27, 0, "a rule of the site holds it, which cannot be judged", tellAdmin, false},
		{4, 0, "its credential is not valid", tellAdmin, false},
		{6, 0, "its worker's program could not be started on the machine", tellAdmin, true},
		{7, 0, "its output file could not be opened", tellAdmin, true},
		{8, 0, "its input could not be opened", tellAdmin, true},
		{9, 0, "its output file could not be opened", tellAdmin, true},
		{10, 0, "its input could not be opened", tellAdmin, true},
		{11, 0, "its files could not be brought to the machine or back", tellAdmin, true},
		{12, 28, "its output could not be brought back: a disk is full", tellAdmin, true},
		{12, 0, "its output could not be brought back", tellAdmin, true},
		{13, 2, "a file that it is to take along is not there", tellAdmin, false},
		{13, 28, "the machine's disk is full", askRelease, false},
		{13, 0, "its files could not be brought to the machine", tellAdmin, false},
		{14, 0, "its directory on the service's host cannot be used", tellAdmin, false},
		{15, 0, "it was submitted on hold", askRelease, false},
		{16, 0, "its files are still being taken in", "wait", false},
		{18, 0, "its files could not be brought to the machine or back", tellAdmin, true},
		{19, 0, "the machine's preparation of jobs failed", tellAdmin, true},
		{21, 0, "the machine's owner holds it", askRelease, true},
		{22, 0, "its log of events could not be written", tellAdmin, false},
		{23, 0, "its account cannot be used at the access point", tellAdmin, false},
		{32, 0, "its files are more than the site takes", fewerInputs, true},
		{33, 0, "its output is more than the site takes", lessOutput, true},
		{45, 0, "Apptainer does not work on the machine", tellAdmin, true},
		{48, 0, "the access point's preparation of jobs failed", tellAdmin, false},
		{49, 0, "its account's group cannot be used at the access point", tellAdmin, false},
	}
}

// onHold tells a job that HTCondor holds. One that has begun, and came to its end by what holds it, has exited.
func (j job) onHold() spawner.Observation {
	h := j.hold()
	o := spawner.Observation{Existence: spawner.Held, Reason: h.reason, Remedy: h.remedy}
	if h.over && j.ran() {
		o.Existence, o.ExitCode, o.Host = spawner.Exited, 1, j.host()
	}
	if j.HoldCode == 34 && j.HoldSub == 102 && j.MemoryMB > 0 {
		o.Reason = fmt.Sprintf(
			"%s (limit %s, of which %s are for what runs it)", h.reason, units.MemoryWords(int64(j.MemoryMB)<<20),
			units.MemoryWords(batch.OwnMemory),
		)
		return o
	}
	if j.HoldCode == byHand && !j.heldByOwner() {
		o.HeldBy = cmp.Or(batch.OneLine(j.holder(), batch.MaxName), "an administrator")
	}
	if said := batch.OneLine(j.HoldReason, batch.MaxReason); said != "" {
		o.Reason += ": " + said
	}
	return o
}

// byHand is the code of what somebody holds with condor_hold.
const byHand = 1

// holder returns who holds a job by hand: the schedd has added that to what was given as reason.
func (j job) holder() string {
	const before = " (by user "
	who, ok := strings.CutSuffix(j.HoldReason, ")")
	if i := strings.LastIndex(who, before); ok && i >= 0 {
		return who[i+len(before):]
	}
	return ""
}

func (j job) heldByOwner() bool {
	name, _, _ := strings.Cut(j.holder(), "@")
	return name != "" && name == j.Login
}

// hold finds what holds a job. Policies of sites that watch over memory have no code of their own, but say so.
func (j job) hold() hold {
	if said := strings.ToLower(j.HoldReason); j.HoldCode == 26 || j.HoldCode == 3 || j.HoldCode == 21 {
		if j.ran() && strings.Contains(said, "memory") {
			return hold{reason: "out of memory", remedy: moreMemory, over: true}
		}
	}
	if j.HoldCode == byHand && j.heldByOwner() {
		return hold{reason: "its owner holds it", remedy: "release it: `slipway jobs release`"}
	}
	for _, h := range holds() {
		if h.code == j.HoldCode && (h.sub == 0 || h.sub == j.HoldSub) {
			return h
		}
	}
	return hold{reason: fmt.Sprintf("HTCondor holds it (code %d)", j.HoldCode), remedy: askRelease}
}
