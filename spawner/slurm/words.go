package slurm

import (
	"slipway/spawner"
	"slipway/spawner/batch"
)

// completing is the state of a job that is being ended.
const completing = "COMPLETING"

// ending is what it means that a job has ended in a state.
type ending struct {
	code           int
	reason, remedy string
	evicted        bool
}

const askWhy = "ask your administrator why, and start it again"

// endings are the states in which a job is over. Of one without a reason its worker tells.
func endings() map[string]ending {
	return map[string]ending{
		"COMPLETED":     {},
		"FAILED":        {code: 1},
		"CANCELLED":     {1, "it was canceled in Slurm", askWhy, false},
		"TIMEOUT":       {1, "time limit reached", "ask for more time: --time", false},
		"DEADLINE":      {1, "its deadline has passed", askWhy, false},
		"OUT_OF_MEMORY": {1, "out of memory", "ask for more memory: --mem", false},
		"NODE_FAIL":     {1, "its node has failed", "", true},
		"BOOT_FAIL":     {1, "its node did not start", "", true},
		"PREEMPTED":     {1, "Slurm gave its place to a job of higher priority", "", true},
		"REVOKED":       {1, "another cluster has taken it", askWhy, false},
	}
}

// observe says what a state shows of a job.
func observe(state, reason string) spawner.Observation {
	if e, over := endings()[state]; over {
		return spawner.Observation{
			Existence: spawner.Exited, ExitCode: e.code, Reason: e.reason, Remedy: e.remedy, Evicted: e.evicted,
		}
	}
	if state != "PENDING" {
		return spawner.Observation{Existence: spawner.Up}
	}
	w := wait(reason)
	if !w.held {
		return spawner.Observation{Existence: spawner.Queued, Detail: w.words, Remedy: w.remedy}
	}
	o := spawner.Observation{Existence: spawner.Held, Reason: w.words, Remedy: w.remedy}
	if !w.own {
		o.HeldBy = "an administrator"
	}
	return o
}

// waiting is why a job does not run yet.
type waiting struct {
	words, remedy string
	held          bool // until it is released
	own           bool // by its owner
}

const (
	others  = "wait until some have ended"
	lessOf  = "ask for less, or wait"
	byAdmin = "ask your administrator to release it, or remove it"
)

// waits are Slurm's reasons.
func waits() map[string]waiting {
	return map[string]waiting{
		"None":                            {words: "Slurm has not looked at it yet"},
		"Priority":                        {words: "jobs of higher priority go first", remedy: lessOf},
		"Resources":                       {words: "no node has room for it now", remedy: lessOf},
		"Dependency":                      {words: "it waits for another job"},
		"BeginTime":                       {words: "its earliest start has not come yet"},
		"Licenses":                        {words: "it waits for a license"},
		"Reservation":                     {words: "it waits for its reservation"},
		"ReservationDeleted":              {words: "its reservation is gone", remedy: "tell your administrator: slurm.reservation"},
		"ReqNodeNotAvail":                 {words: "the nodes that could take it are down, drained or reserved"},
		"NodeDown":                        {words: "the node that it needs is down"},
		"BadConstraints":                  {words: "no node fulfils what it asks for", remedy: "remove it, and ask for less"},
		"PartitionDown":                   {words: "the partition is closed"},
		"PartitionInactive":               {words: "the partition is closed"},
		"PartitionTimeLimit":              {words: "it asks for more time than the partition ever gives", remedy: "remove it, and ask for less time: --time"},
		"PartitionNodeLimit":              {words: "it asks for more nodes than the partition gives", remedy: "remove it, and ask for less"},
		"AssociationJobLimit":             {words: "your account has as many jobs as it may", remedy: others},
		"AssocMaxJobsLimit":               {words: "your account has as many jobs as it may", remedy: others},
		"AssocGrpGRES":                    {words: "your group has as many GPUs as it may", remedy: others},
		"AssocGrpCpuLimit":                {words: "your group has as many CPUs as it may", remedy: others},
		"AssocGrpMemLimit":                {words: "your group has as much memory as it may", remedy: others},
		"QOSMaxGRESPerUser":               {words: "you have as many GPUs as one user may", remedy: others},
		"QOSMaxCpuPerUserLimit":           {words: "you have as many CPUs as one user may", remedy: others},
		"QOSMaxMemoryPerUser":             {words: "you have as much memory as one user may", remedy: others},
		"QOSMaxJobsPerUserLimit":          {words: "you have as many jobs as one user may", remedy: others},
		"QOSMaxWallDurationPerJobLimit":   {words: "it asks for more time than the QOS allows", remedy: "remove it, and ask for less time: --time"},
		"QOSGrpGRES":                      {words: "all users together have as many GPUs as they may", remedy: others},
		"QOSGrpCpuLimit":                  {words: "all users together have as many CPUs as they may", remedy: others},
		"InvalidAccount":                  {words: "Slurm does not know its account", remedy: "tell your administrator: slurm.account"},
		"InvalidQOS":                      {words: "Slurm does not know its QOS", remedy: "tell your administrator: slurm.qos"},
		"JobHeldUser":                     {words: "its owner holds it", remedy: "release it: `slipway jobs release`", held: true, own: true},
		"JobHeldAdmin":                    {words: "an administrator holds it", remedy: byAdmin, held: true},
		"JobLaunchFailure":                {words: "it could not be started on its node", remedy: byAdmin, held: true},
		"launch failed requeued held":     {words: "it could not be started on its node", remedy: byAdmin, held: true},
		"launch_failed_requeued_held":     {words: "it could not be started on its node", remedy: byAdmin, held: true},
		"job requeued in held state":      {words: "an administrator has requeued and holds it", remedy: byAdmin, held: true},
		"Nodes required for job are DOWN": {words: "the nodes that could take it are down, drained or reserved"},
	}
}

// wait says what a reason means. Of one that is not known Slurm's own word is told.
func wait(reason string) waiting {
	w, known := waits()[reason]
	if !known {
		return waiting{words: "it waits (" + batch.OneLine(reason, batch.MaxReason) + ")"}
	}
	return w
}
