package htcondor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"slipway/spawner"
	"slipway/spawner/batch"
)

// status is HTCondor's word for where a job is.
type status int

const (
	idle         status = 1
	running      status = 2
	removed      status = 3
	completed    status = 4
	held         status = 5
	transferring status = 6 // its output comes back
)

// job is one job of the queue or of the history, as condor_q and condor_history print it with -json.
type job struct {
	Cluster, Proc integer
	Status        status
	ID            spawner.ID
	Launch        string
	Login         string // whose it is
	Shadows       integer
	RemoteHost    string  // slot1@host while it runs
	Shadow        integer // since when something looks after its run; 0: nothing does
	Reconnects    integer // how often its worker was out of touch
	LastHost      string
	HoldReason    string
	HoldCode      integer
	HoldSub       integer
	ExitCode      integer
	BySignal      bool
	Signal        integer
	RemoveReason  string
	VacateReason  string
	Rejected      string // why the last negotiation found nothing
	MemoryMB      integer
}

// wireJob is a job in HTCondor's names. What may be an expression there is an integer.
type wireJob struct {
	ClusterID         integer `json:"ClusterId"`
	ProcID            integer `json:"ProcId"`
	JobStatus         integer `json:"JobStatus"`
	SlipwayInstance   lenient `json:"SlipwayInstance"`
	SlipwayID         lenient `json:"SlipwayId"`
	SlipwayLaunch     lenient `json:"SlipwayLaunch"`
	SlipwayMark       lenient `json:"SlipwayMark"`
	Owner             lenient `json:"Owner"`
	NumShadowStarts   integer `json:"NumShadowStarts"`
	RemoteHost        lenient `json:"RemoteHost"`
	ShadowBday        integer `json:"ShadowBday"`
	Reconnects        integer `json:"TotalJobReconnectAttempts"`
	LastRemoteHost    lenient `json:"LastRemoteHost"`
	HoldReason        lenient `json:"HoldReason"`
	HoldReasonCode    integer `json:"HoldReasonCode"`
	HoldReasonSubCode integer `json:"HoldReasonSubCode"`
	ExitCode          integer `json:"ExitCode"`
	ExitBySignal      boolean `json:"ExitBySignal"`
	ExitSignal        integer `json:"ExitSignal"`
	RemoveReason      lenient `json:"RemoveReason"`
	VacateReason      lenient `json:"VacateReason"`
	LastRejMatch      lenient `json:"LastRejMatchReason"`
	RequestMemory     integer `json:"RequestMemory"`
}

// attributes are those that are asked for.
func attributes() string {
	return "ClusterId,ProcId,JobStatus,SlipwayInstance,SlipwayId,SlipwayLaunch,SlipwayMark,Owner,NumShadowStarts,RemoteHost,ShadowBday,LastRemoteHost," +
		"HoldReason,HoldReasonCode,HoldReasonSubCode,ExitCode,ExitBySignal,ExitSignal,RemoveReason,VacateReason,LastRejMatchReason," +
		"RequestMemory,TotalJobReconnectAttempts"
}

// integer, boolean and lenient are attributes of those types. One that is of another, such as an expression, is zero: a
// single odd job must not hide all others.
type (
	integer int64
	boolean bool
	lenient string
)

// UnmarshalJSON never fails.
func (n *integer) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err == nil && f > -1e15 && f < 1e15 {
		*n = integer(f)
	}
	return nil
}

// UnmarshalJSON never fails.
func (v *boolean) UnmarshalJSON(b []byte) error {
	*v = string(b) == "true"
	return nil
}

// UnmarshalJSON never fails.
func (s *lenient) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*s = lenient(text)
	}
	return nil
}

// parseJobs reads what condor_q or condor_history prints with -json: nothing at all when there is no job. Jobs that are
// not of this instance, of no workload, or only say so, are left out.
func parseJobs(data []byte, own batch.Marker) ([]job, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, nil
	}
	if i := bytes.Index(data, []byte("\n[")); data[0] != '[' && i >= 0 {
		data = data[i+1:] // a command may warn of something first
	}
	var list []wireJob
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the jobs of HTCondor: %w", err)
	}
	jobs := make([]job, 0, len(list))
	for _, w := range list {
		if own.Owns(string(w.SlipwayInstance), string(w.Owner), string(w.SlipwayID), string(w.SlipwayLaunch), string(w.SlipwayMark)) {
			jobs = append(jobs, w.job())
		}
	}
	return jobs, nil
}

func (w wireJob) job() job {
	return job{
		Cluster: w.ClusterID, Proc: w.ProcID, Status: status(w.JobStatus), ID: spawner.ID(w.SlipwayID),
		Launch: string(w.SlipwayLaunch),
		Login:  string(w.Owner), Shadows: w.NumShadowStarts, RemoteHost: string(w.RemoteHost), Shadow: w.ShadowBday,
		LastHost:   string(w.LastRemoteHost),
		Reconnects: w.Reconnects, HoldReason: string(w.HoldReason), HoldCode: w.HoldReasonCode,
		HoldSub:  w.HoldReasonSubCode,
		ExitCode: w.ExitCode, BySignal: bool(w.ExitBySignal), Signal: w.ExitSignal,
		RemoveReason: string(w.RemoveReason), VacateReason: string(w.VacateReason),
		Rejected: string(w.LastRejMatch), MemoryMB: w.RequestMemory,
	}
}

// Name is the job's in HTCondor.
func (j job) Name() string { return fmt.Sprintf("%d.%d", j.Cluster, j.Proc) }

// seen returns the job as a look at the queue shows it.
func (j job) seen() batch.Job {
	return batch.Job{
		ID: j.ID, Run: j.Launch, Login: j.Login, Name: j.Name(), Number: int64(j.Cluster), Task: int64(j.Proc),
		Begun: j.ran(), Leaving: j.Status == removed, Seen: j.Observation(),
	}
}

// ran reports whether the pool has begun the job at some time: it never begins it again.
func (j job) ran() bool { return j.Shadows > 0 }

// host is the machine without the slot.
func (j job) host() string {
	at := j.RemoteHost
	if at == "" {
		at = j.LastHost
	}
	if _, machine, ok := strings.Cut(at, "@"); ok {
		at = machine
	}
	return batch.OneLine(at, batch.MaxName)
}

// Observation tells what a job that is in the queue shows. What its worker left is not in it.
func (j job) Observation() spawner.Observation {
	o := spawner.Observation{Existence: spawner.Up, Host: j.host()}
	switch j.Status {
	case idle:
		if j.ran() {
			return j.evicted()
		}
		return spawner.Observation{Existence: spawner.Queued, Detail: j.waits()}
	case running:
		o.Shaken = j.Reconnects > 0
	case held:
		return j.onHold()
	case transferring:
		o.Returning = true
	case completed:
		o.Existence, o.ExitCode = spawner.Exited, int(j.ExitCode)
		if j.BySignal {
			o.ExitCode, o.Reason = 128+int(j.Signal), fmt.Sprintf(
				"its worker was ended by signal %d on %s", j.Signal, j.host(),
			)
		}
	case removed:
		if j.RemoteHost == "" && j.Shadow == 0 { // else it is being ended there
			return j.gone().Observation()
		}
	}
	return o
}

// waits says what a job that never ran waits for.
func (j job) waits() string {
	if j.Rejected == "" {
		return "it waits for the next negotiation"
	}
	return "it waits for a machine (" + batch.OneLine(j.Rejected, batch.MaxReason) + ")"
}

// evicted tells a job that the pool has begun and does not run any more.
func (j job) evicted() spawner.Observation {
	why := "its place was taken away"
	if j.VacateReason != "" {
		why = batch.OneLine(j.VacateReason, batch.MaxReason)
	}
	return spawner.Observation{Existence: spawner.Exited, ExitCode: 1, Evicted: true, Host: j.host(), Reason: why}
}

// gone tells the end of a job that has left the queue without having been completed, or is about to.
func (j job) gone() batch.End {
	e := batch.End{
		Code: 1, Host: j.host(), Reason: "it was removed from HTCondor's queue",
		Remedy: "ask your administrator why, and start it again",
	}
	switch {
	case j.Status == completed:
		e = batch.End{
			Code: int(j.ExitCode), Host: j.host(),
			Reason: "it has ended, and was removed from HTCondor's queue before its outcome was read", Remedy: e.Remedy,
		}
	case j.RemoveReason != "":
		e.Reason += ": " + batch.OneLine(j.RemoveReason, batch.MaxReason)
	}
	return e
}
