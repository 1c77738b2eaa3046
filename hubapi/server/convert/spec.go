package convert

import (
	"slipway/hubapi"
	"slipway/internal/units"
	"slipway/spawner"
)

// What a job is to be goes both ways: Spec and Patch read a request, jobSpec tells of a job. Limits and slices that
// are asked for are the catalogue's to read.

// Spec returns what the engine knows of a request: all but the resources, the time limit and the slice of a GPU.
func Spec(req hubapi.JobRequest) spawner.Spec {
	return spawner.Spec{
		Environment: req.Environment, Argv: req.Argv, Env: req.Env,
		JobSpec: spawner.JobSpec{
			Preemptible: req.Preemptible, Retries: req.Retries, Priority: req.Priority, Out: req.Out,
		},
	}
}

// Patch returns the engine's form of what is to be other, likewise.
func Patch(p hubapi.JobPatch) spawner.SpecPatch {
	return spawner.SpecPatch{Environment: p.Environment, Retries: p.Retries, Priority: p.Priority}
}

// jobSpec returns what a job is to be, but for what it runs.
func jobSpec(w spawner.Workload) hubapi.JobSpec {
	return hubapi.JobSpec{
		Environment: w.Spec.Environment, Retries: w.Spec.Retries, Priority: w.Spec.Priority,
		After: OrEmpty(w.After), Out: OrEmpty(w.Spec.Out),
	}
}

// Resources returns the API's form of what a Spec has of a host.
func Resources(s spawner.Spec) hubapi.Resources {
	return hubapi.Resources{
		CPUs: s.Resources.CPUs, Memory: units.FormatMemory(s.Resources.Memory), GPU: s.GPU.String(),
	}
}

// Availability returns the API's form of how soon a workload would start.
func Availability(r spawner.Room) hubapi.Availability {
	return hubapi.Availability{
		Free: r.Free, Most: r.Most, Waiting: r.Waiting, Lacks: r.Lacks, Estimate: Seconds(r.Estimate),
	}
}
