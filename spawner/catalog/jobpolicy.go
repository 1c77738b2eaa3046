package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// aJob is whose limits a JobPolicy's are, for the error of who wants more.
const aJob = "a job"

// JobPolicy is what users may ask for in one job, and what they get who do not ask.
type JobPolicy struct {
	DefaultCPUs, MaxCPUs     float64
	DefaultMemory, MaxMemory int64 // bytes
	DefaultTime, MaxTime     time.Duration
	Pids                     int64 // zero: 4096
	// the requests that a job may make, with any needs beside; "*" is any. Empty: none
	GPUs    []string
	Backend string             // of jobs that name none
	Most    map[string]JobMost // by backend, where it is not MaxCPUs and MaxMemory
}

// JobMost is the most that one job of a backend may have. Zero: as on the others.
type JobMost struct {
	CPUs   float64
	Memory int64 // bytes
}

// On returns what users may ask for in a job on a backend; empty is the one of jobs that name none. Of AnyBackend it is
// the most of all, and Admits says of which.
func (p JobPolicy) On(backend string) JobPolicy {
	if backend == spawner.AnyBackend {
		for _, most := range p.Most {
			p.MaxCPUs, p.MaxMemory = max(p.MaxCPUs, most.CPUs), max(p.MaxMemory, most.Memory)
		}
		return p
	}
	most := p.Most[cmp.Or(backend, p.Backend)]
	p.MaxCPUs, p.MaxMemory = cmp.Or(most.CPUs, p.MaxCPUs), cmp.Or(most.Memory, p.MaxMemory)
	return p
}

// Admits reports whether a job may have so much on a backend.
func (p JobPolicy) Admits(backend string, r spawner.Resources) bool {
	p = p.On(backend)
	return r.CPUs <= max(p.DefaultCPUs, p.MaxCPUs) && r.Memory <= max(p.DefaultMemory, p.MaxMemory)
}

// GPU reads what a job asks of a GPU: a string, nil or empty for none. What the policy does not name is refused.
func (p JobPolicy) GPU(option any) (gpu.Request, error) {
	text, err := word("gpu", option)
	if err != nil {
		return gpu.Request{}, err
	}
	r, err := gpu.ParseRequest(text)
	if err != nil || r.None() {
		return r, err
	}
	if !slices.Contains(p.GPUs, "*") && !slices.Contains(p.GPUs, r.String()) &&
		!slices.Contains(p.GPUs, r.Bare().String()) {
		remedy := "leave it out: jobs get no GPU at this site"
		if len(p.GPUs) > 0 {
			remedy = "one of " + strings.Join(p.GPUs, ", ")
		}
		return gpu.Request{}, errs.Bad("gpu", r, remedy)
	}
	return r, nil
}

// Resolve reads a job's limits, given as strings or numbers; nil and the empty string mean the default. A time without
// a unit is of seconds. What is beyond the policy is refused, never bent.
func (p JobPolicy) Resolve(cpus, memory, limit any) (spawner.Resources, time.Duration, error) {
	c, err := cpusWithin(aJob, cpus, p.DefaultCPUs, max(p.DefaultCPUs, p.MaxCPUs))
	if err != nil {
		return spawner.Resources{}, 0, err
	}
	mem, err := memoryWithin(aJob, memory, p.DefaultMemory, max(p.DefaultMemory, p.MaxMemory))
	if err != nil {
		return spawner.Resources{}, 0, err
	}
	d, err := p.timeLimit(limit)
	if err != nil {
		return spawner.Resources{}, 0, err
	}
	pids := p.Pids
	if pids == 0 {
		pids = defaultPids
	}
	return spawner.Resources{CPUs: c, Memory: mem, Pids: pids}, d, nil
}

func (p JobPolicy) timeLimit(limit any) (time.Duration, error) {
	const field = "time_limit"
	most := max(p.DefaultTime, p.MaxTime)
	remedy := fmt.Sprintf("a time such as 30m or 2h, from 1s to %s", timeWords(most))
	var d time.Duration
	switch v := limit.(type) {
	case nil:
		return p.DefaultTime, nil
	case float64:
		if v > most.Seconds() && !math.IsInf(v, 0) { // which may be more than a Duration holds
			return 0, errs.Over(field, fmt.Sprintf("%gs", v), timeWords(most), aJob)
		}
		if !(v > 0 && v <= most.Seconds()) {
			return 0, errs.Bad(field, fmt.Sprintf("%g", v), remedy)
		}
		d = time.Duration(v * float64(time.Second))
	case string:
		if strings.TrimSpace(v) == "" {
			return p.DefaultTime, nil
		}
		parsed, err := time.ParseDuration(strings.TrimSpace(v))
		if err != nil {
			return 0, errs.Bad(field, errs.Shorten(v), remedy)
		}
		d = parsed
	default:
		return 0, errs.Bad(field, errs.Shorten(fmt.Sprint(v)), remedy)
	}
	switch {
	case d > most:
		return 0, errs.Over(field, timeWords(d), timeWords(most), aJob)
	case d < 0:
		return 0, errs.Bad(field, timeWords(d), remedy)
	case d < time.Second:
		return 0, errs.Under(field, timeWords(d), "1s", aJob)
	}
	return d, nil
}

// timeWords writes a time as it is asked for, without parts that are nothing: 2h, 90s as 1m30s.
func timeWords(d time.Duration) string {
	words := d.String()
	if short, ok := strings.CutSuffix(words, "m0s"); ok {
		words = short + "m"
	}
	if short, ok := strings.CutSuffix(words, "h0m"); ok {
		words = short + "h"
	}
	return words
}
