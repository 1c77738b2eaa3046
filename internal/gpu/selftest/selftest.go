// Package selftest proves a slice of a GPU from the inside: that exactly the leased devices are there, that they
// compute and copy rightly, and that the memory limit which was promised holds. It runs in the helper program: inside a
// session before its app starts, and by hand on a node, in a container or in Apptainer.
//
// It promises to change nothing: what it allocates is given back, no setting is touched, and processes that it starts
// have ended when it returns. A check fails only for what is wrong with the slice, its binding or the driver; what is
// the image's own matter is a warning. It must not need anything but the driver: no CUDA toolkit, no Python.
package selftest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/cuda"
)

// Result is how a check, or the whole test, ended.
type Result string

// The results. A warning does not fail the test.
const (
	OK      Result = "ok"
	Warning Result = "warning"
	Failed  Result = "failed"
	Skipped Result = "skipped"
	Nothing Result = "nothing to test" // of the whole: there is no driver library
)

// Check is what one check found.
type Check struct {
	Name    string  `json:"name"`
	Result  Result  `json:"result"`
	Detail  string  `json:"detail,omitempty"`
	Remedy  string  `json:"remedy,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Report is what the test found.
type Report struct {
	Result  Result   `json:"result"`
	Fault   string   `json:"fault,omitempty"` // what failed, or why there is nothing to test
	Devices []Device `json:"devices,omitempty"`
	Checks  []Check  `json:"checks"`
	Seconds float64  `json:"seconds"`
}

// Device is a device that the driver shows.
type Device struct {
	Name       string `json:"name"`
	UUID       string `json:"uuid"` // without a prefix
	Memory     int64  `json:"memory"`
	SMs        int    `json:"sms"`
	Capability string `json:"capability"`
}

// Config says what to test.
type Config struct {
	Expect     *gpu.Expectation // nil: what is there is tested, and compared with nothing
	Root       string           // "/" when empty; tests have a tree
	LibraryDir string           // where NVIDIA's libraries are; empty: where the dynamic loader looks
	Environ    []string         // of this process
	// Brief leaves out what takes long or disturbs neighbours, for the start of a session. What is not essential is
	// left out too once BriefTime has passed.
	Brief bool
	// Self is the beginning of a command that runs Main in another process.
	Self []string
}

// BriefTime is about how long a brief test takes.
const BriefTime = 2 * time.Second

var briefTime = BriefTime // a variable for tests, which a loaded machine must not make incomplete

// when says when a check is done.
type when int

const (
	always      when = iota // whatever it takes
	ifTime                  // in a brief test only while there is time
	thoroughly              // not in a brief test
	briefReason = "left out of the brief test"
)

// check is one of the list.
type check struct {
	name string
	when when
	look func(*bench) outcome
}

// checks are all, in order: later ones need what earlier ones have opened.
func checks(ctx context.Context) []check {
	return []check{
		{"device files", always, (*bench).deviceFiles},
		{"NVML", always, (*bench).nvmlLoads},
		{"CUDA driver", always, (*bench).driverLoads},
		{"devices", always, (*bench).rightDevices},
		{"processors", always, (*bench).processors},
		{"MPS", always, (*bench).mps},
		{"memory limit", always, (*bench).memoryLimit},
		{"kernel", always, (*bench).kernel},
		{"copies", ifTime, (*bench).copies},
		{"health", ifTime, (*bench).health},
		{"CUDA runtime", ifTime, (*bench).cudaRuntime},
		{"no other GPU", ifTime, func(b *bench) outcome { return b.noOther(ctx) }},
		{"second process", thoroughly, func(b *bench) outcome { return b.secondProcess(ctx) }},
	}
}

// bench is what the checks share.
type bench struct {
	cfg     Config
	began   time.Time
	nvml    *nvml        // nil: it did not load
	cuda    *cuda.Driver // nil: it did not load
	devices []cuda.Device
	missing bool // there is no driver library
}

// outcome is a check's finding.
type outcome struct {
	result         Result
	detail, remedy string
}

func ok(format string, args ...any) outcome { return outcome{OK, fmt.Sprintf(format, args...), ""} }

func skipped(format string, args ...any) outcome {
	return outcome{Skipped, fmt.Sprintf(format, args...), ""}
}

func failed(remedy, format string, args ...any) outcome {
	return outcome{Failed, fmt.Sprintf(format, args...), remedy}
}

func warned(remedy, format string, args ...any) outcome {
	return outcome{Warning, fmt.Sprintf(format, args...), remedy}
}

// Run does the test. When ctx ends, the check that is under way has failed and the rest is left out. A call into a
// driver that hangs cannot be ended: the program is to end after Run then.
func Run(ctx context.Context, cfg Config) Report {
	b := &bench{cfg: cfg, began: time.Now()}
	list := checks(ctx)
	found := make(chan Check)
	go func() { // not awaited when ctx ends: it may be in a call that never returns
		defer close(found)
		for _, c := range list {
			select {
			case found <- b.examine(c):
			case <-ctx.Done():
				return
			}
		}
		b.nvml.shutdown()
	}()
	var r Report
	for len(r.Checks) < len(list) {
		select {
		case c, more := <-found:
			if more {
				r.Checks = append(r.Checks, c)
				continue
			}
		case <-ctx.Done():
		}
		return unfinished(r, list, b.began)
	}
	select {
	case <-found:
	case <-ctx.Done():
	}
	for _, d := range b.devices {
		r.Devices = append(r.Devices, Device{d.Name, d.UUID.String(), d.Memory, d.SMs, d.Capability})
	}
	return r.conclude(b.missing, b.began)
}

// unfinished is the report of a test that was ended.
func unfinished(r Report, list []check, began time.Time) Report {
	rest := list[len(r.Checks):]
	for i, left := range rest {
		c := Check{Name: left.name, Result: Skipped, Detail: "the test had ended"}
		if i == 0 {
			c.Result, c.Detail = Failed, fmt.Sprintf(
				"it had not ended after %.1f s in all", time.Since(began).Seconds(),
			)
			c.Remedy = "a driver that hangs needs the node's administrator: look into the kernel's log for NVRM and Xid"
		}
		r.Checks = append(r.Checks, c)
	}
	return r.conclude(false, began)
}

func (b *bench) examine(c check) Check {
	start := time.Now()
	var o outcome
	switch {
	case b.cfg.Brief && c.when == thoroughly:
		o = skipped(briefReason)
	case b.cfg.Brief && c.when == ifTime && time.Since(b.began) > briefTime:
		o = skipped("the brief test had taken %.1f s already", time.Since(b.began).Seconds())
	default:
		o = c.look(b)
	}
	return Check{c.name, o.result, o.detail, o.remedy, time.Since(start).Seconds()}
}

// conclude fills in what follows from the checks.
func (r Report) conclude(missing bool, began time.Time) Report {
	r.Seconds, r.Result = time.Since(began).Seconds(), OK
	if missing {
		r.Result, r.Fault = Nothing, cuda.LibraryName+" is not there"
	}
	var faults []string
	for _, c := range r.Checks {
		if c.Result == Failed {
			faults = append(faults, c.Name+": "+c.Detail)
		}
	}
	if len(faults) > 0 {
		r.Result, r.Fault = Failed, strings.Join(faults, "; ")
	}
	return r
}

// env returns a variable of the process.
func (b *bench) env(name string) (string, bool) {
	for _, kv := range b.cfg.Environ {
		if v, found := strings.CutPrefix(kv, name+"="); found {
			return v, true
		}
	}
	return "", false
}

// path returns a path of the host or of a test's tree.
func (b *bench) path(p string) string { return strings.TrimSuffix(b.cfg.Root, "/") + p }

// without returns the outcome of a check that cannot be done, where there is no device to do it on.
func (b *bench) without() (outcome, bool) {
	switch {
	case b.cuda == nil:
		return skipped("the CUDA driver did not start"), true
	case len(b.devices) == 0:
		return skipped("the driver shows no device"), true
	default:
		return outcome{}, false
	}
}
