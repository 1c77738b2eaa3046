// Package convert makes the API's form of what the engine has: of workloads, jobs, scans, GPUs, keys and credentials.
// What is the owner's alone to read, it shows to nobody else. It asks the engine for what a record does not say by
// itself, and changes nothing.
package convert

import (
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/internal/agent/control"
	"slipway/internal/gpu"
	"slipway/internal/sshauth"
	"slipway/spawner"
)

// Engine is what the package needs of the engine, which has the contract of each method.
type Engine interface {
	Queue(w spawner.Workload) spawner.Queue
	Detail(w spawner.Workload) string
	PlannedStop(w spawner.Workload) spawner.PlannedStop
	Alerts(w spawner.Workload) []spawner.Alert
	Progress(id spawner.ID) *control.Progress
	Expires(w spawner.Workload) time.Time
}

// Config is what a Converter needs.
type Config struct {
	Engine Engine
	Hubs   *hubs.Set
	GPUUse func(holder string) gpu.Use // nil: nobody knows how much of a slice is used
	SSH    *sshauth.Authority          // nil: nobody comes in by ssh
}

// Converter makes the API's form of records about which the engine has more to say.
type Converter struct{ cfg Config }

// New makes a Converter.
func New(cfg Config) *Converter { return &Converter{cfg} }

// workload makes the API's form of a workload.
func (v *Converter) workload(w spawner.Workload) hubapi.Workload {
	queue := v.cfg.Engine.Queue(w)
	out := hubapi.Workload{
		Meta: hubapi.Meta{
			ID: string(w.ID), User: string(w.Owner), Name: w.Name, Backend: w.Backend, Created: w.Created.UTC(),
		},
		Resources: Resources(w.Spec),
		Kind:      string(w.Kind), Phase: string(w.Phase), Want: string(w.Want), Launch: w.Launch,
		Since: w.Since.UTC(), Up: Moment(w.Up), Waiting: queue.String(), Host: w.Host, Evictions: w.Evictions,
		Slice:   v.held(w),
		Standby: w.Standby != "",
	}
	if queue.Place == 0 { // it waits elsewhere, or not at all
		out.Waiting = v.cfg.Engine.Detail(w)
	} else {
		out.Queue = &hubapi.Queue{Place: queue.Place, Lacks: queue.Lacks, Estimate: Seconds(queue.Estimate)}
	}
	if w.Outcome != nil {
		o := outcome(*w.Outcome)
		out.Outcome = &o
	}
	return out
}

func outcome(o spawner.Outcome) hubapi.Outcome {
	out := hubapi.Outcome{
		ExitCode: o.ExitCode, Reason: o.Reason, Remedy: o.Remedy, Tail: o.Tail, Failed: o.Failed, Canceled: o.Canceled,
		Expired: o.Expired,
		At:      o.At.UTC(), MaxRSS: o.MaxRSS, CPU: o.CPU, Wall: o.Wall, Signal: o.Signal, Cause: hubapi.Cause(o.Cause),
	}
	if u := o.GPU; u != nil {
		out.GPU = &hubapi.SliceUse{Busy: u.Busy, Memory: u.Memory, Energy: u.Energy}
	}
	return out
}

func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// OrEmpty has a list that is empty written as one.
func OrEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func Event(e spawner.Event) hubapi.Event {
	return hubapi.Event{
		Seq: e.Seq, Time: e.Time.UTC(), Percent: e.Percent, Message: e.Message, Final: e.Final, Failed: e.Failed,
	}
}

// Seconds is the API's form of an estimate.
func Seconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64(d / time.Second)
}
