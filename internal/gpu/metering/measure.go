package metering

import (
	"slices"

	"slipway/internal/gpu"
)

// unknown stands for a number that could not be measured, as in gpu.Reading.
const unknown = -1

// scope is whereof a sample is: numbers of two scopes cannot be compared.
type scope int

const (
	ofNothing scope = iota
	ofDevice
	ofInstance
	ofProcesses
)

// sample is what one reading says of one slice.
type sample struct {
	scope     scope
	source    gpu.Source
	sm        float64 // percent, from source
	busiest   float64 // the highest of all signals that the mode has: idleness is judged by it
	load      float64 // processors' worth of work: the same, for sharing out energy
	memory    int64
	processes int
	why       string // why there is no sm
}

// nothing is a sample of a slice that could not be looked at.
func nothing(why string) sample {
	return sample{sm: unknown, busiest: unknown, load: unknown, memory: unknown, processes: unknown, why: why}
}

// part is one workload's part in a GPU: the holder's, or that of the job which has borrowed its slice.
type part struct {
	id        string
	lease     gpu.Lease
	borrowed  bool
	byProcess bool
	gi        *int // mig: nil when there is no instance
}

// parts returns all parts of all leases.
func parts(held []gpu.Lease, looks []look) []part {
	gis := map[string]*int{}
	for _, k := range looks {
		for _, s := range k.state.Slices {
			gis[s.Holder] = s.GI
		}
	}
	var all []part
	for _, l := range held {
		gi := gis[l.Holder]
		all = append(all, part{id: l.Holder, lease: l, byProcess: byProcess(l), gi: gi})
		if l.Lent != "" {
			own := l.Slice.Mode == gpu.Whole || l.Slice.Mode == gpu.MIG // the owner's kernel may be there, but rests
			all = append(all, part{id: l.Lent, lease: l, borrowed: true, byProcess: !own, gi: gi})
		}
	}
	return all
}

// measure returns the sample of a part. owners says whose a process is; nil: nobody can tell.
func (p part) measure(d gpu.Device, r gpu.Reading, owners map[int]string, busySM float64) sample {
	switch {
	case p.lease.Slice.Mode == gpu.MIG && p.gi == nil:
		s := nothing("its instance is not there")
		s.load = 0
		return s
	case p.byProcess:
		return p.measureProcesses(d, r, owners, busySM)
	case p.lease.Slice.Mode == gpu.MIG:
		return measureInstance(*p.gi, p.lease.Slice.SMs, d, r)
	default:
		return measureDevice(d, r)
	}
}

func measureDevice(d gpu.Device, r gpu.Reading) sample {
	s := sample{
		scope: ofDevice, source: gpu.SourceGPM, sm: r.SM, busiest: max(r.SM, r.Utilisation),
		load:   r.SM / 100 * float64(d.SMs),
		memory: r.MemoryUsed, processes: len(r.Processes),
	}
	if r.SM < 0 {
		s.source, s.sm, s.load = gpu.SourceUtilisation, r.Utilisation, r.Utilisation/100*float64(d.SMs)
	}
	return s.listOnly("the driver gives no utilisation of this GPU: only its processes and memory are seen")
}

func measureInstance(gi, sms int, d gpu.Device, r gpu.Reading) sample {
	use, found := r.Instances[gi]
	if !found {
		use = gpu.InstanceUse{SM: unknown, MemoryUsed: unknown}
	}
	s := sample{
		scope: ofInstance, source: gpu.SourceGPM, sm: use.SM, busiest: use.SM, load: use.SM / 100 * float64(sms),
		memory: use.MemoryUsed,
	}
	of := func(p gpu.ProcessUse) bool { return p.GI == gi }
	s.processes, _, _ = count(r.Processes, of)
	if s.memory < 0 {
		_, s.memory, _ = count(r.Processes, of)
	}
	why := "the driver gives no GPM figures of this instance: only its processes and memory are seen"
	if !d.GPM {
		why = "MIG instances of GPUs before Hopper have no utilisation: only their processes and memory are seen"
	}
	return s.listOnly(why)
}

func (p part) measureProcesses(d gpu.Device, r gpu.Reading, owners map[int]string, busySM float64) sample {
	if owners == nil {
		return nothing("several workloads are on this GPU, and nobody can tell whose a process is")
	}
	s := sample{scope: ofProcesses, source: gpu.SourceProcess}
	s.processes, s.memory, s.sm = count(r.Processes, func(u gpu.ProcessUse) bool {
		return owners[u.PID] == p.id && (p.gi == nil || u.GI == *p.gi)
	})
	if max(r.SM, r.Utilisation) >= busySM && p.unassigned(r, owners) {
		s.sm = unknown
	}
	s.busiest, s.load = s.sm, s.sm/100*float64(d.SMs)
	return s.listOnly("the driver does not say how busy each process is: only processes and memory are seen")
}

// unassigned reports whether none of the processes that could be at work is said to be: on a GPU that is busy the
// figures by process are then worth nothing. With MPS the daemon's server may have all the work to its name.
func (p part) unassigned(r gpu.Reading, owners map[int]string) bool {
	return !slices.ContainsFunc(r.Processes, func(u gpu.ProcessUse) bool {
		return u.SM > 0 && (p.lease.Slice.Mode != gpu.MPS || owners[u.PID] != "")
	})
}

// listOnly makes of a sample without utilisation one of the list of processes, and says why.
func (s sample) listOnly(why string) sample {
	if s.sm < 0 {
		s.source, s.sm, s.busiest, s.load, s.why = gpu.SourceProcessList, unknown, unknown, unknown, why
	}
	return s
}

// count adds up processes. A sum of which a part is not known is not known.
func count(all []gpu.ProcessUse, of func(gpu.ProcessUse) bool) (n int, memory int64, sm float64) {
	for _, p := range all {
		if !of(p) {
			continue
		}
		n++
		if memory += p.Memory; p.Memory < 0 || memory < 0 {
			memory = -1 << 62
		}
		if sm += float64(p.SM); p.SM < 0 || sm < 0 {
			sm = -1e9
		}
	}
	return n, max(memory, unknown), min(max(sm, unknown), 100)
}
