package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

const ticksPerSecond = 100 // of /proc, on every machine that Go builds for

// Stat is what the kernel says of a process, in ticks of CPU time.
type Stat struct {
	Pid, Parent int
	own         int64  // used by itself
	waited      int64  // used by its ended children, and theirs, that were waited for
	Terminal    uint64 // the number of the one that it has; 0: none
}

// parseStat reads /proc/PID/stat. The program's name, in parentheses, may hold anything.
func parseStat(b []byte) (Stat, bool) {
	first, _, found := bytes.Cut(b, []byte(" ("))
	end := bytes.LastIndex(b, []byte(") "))
	if !found || end < len(first) {
		return Stat{}, false
	}
	f := bytes.Fields(b[end+2:]) // from the state on, the third field
	if len(f) < 15 {
		return Stat{}, false
	}
	var n [7]int64
	for i, text := range [][]byte{first, f[1], f[11], f[12], f[13], f[14], f[4]} {
		v, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || v < 0 {
			return Stat{}, false
		}
		n[i] = v
	}
	return Stat{Pid: int(n[0]), Parent: int(n[1]), own: n[2] + n[3], waited: n[4] + n[5], Terminal: uint64(n[6])}, true
}

// List returns all processes that can be seen in proc.
func List(proc string) []Stat {
	dir, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var list []Stat
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		b, err := os.ReadFile(filepath.Join(proc, name, "stat"))
		if err != nil {
			continue // it has just ended
		}
		if p, ok := parseStat(b); ok {
			list = append(list, p)
		}
	}
	return list
}

// used adds up what the others used: what they say of themselves and of the children that they have waited for. So each
// process counts once, as long as it lives and after it. All says that every process is the workload's; else those are
// that come from self.
func used(list []Stat, self int, all bool) (ticks int64) {
	for _, p := range list {
		if p.Pid == self {
			ticks += p.waited
		}
	}
	for _, p := range others(list, self, all) {
		ticks += p.own + p.waited
	}
	return ticks
}

// others returns the workload's processes without self.
func others(list []Stat, self int, all bool) (out []Stat) {
	children := map[int][]Stat{}
	for _, p := range list {
		parent := p.Parent
		if all {
			parent = self
		}
		if p.Pid != self {
			children[parent] = append(children[parent], p)
		}
	}
	for next := []int{self}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			out = append(out, p)
			next = append(next, p.Pid)
		}
		delete(children, next[0])
	}
	return out
}

// Alone reports whether all processes that can be seen are the workload's: the agent is the first of them, or, under
// Apptainer, the child of the first in a namespace that is not the machine's.
func Alone(proc string, pid, parent int) bool {
	const machine = "pid:[4026531836]" // a fixed number of the kernel's
	if pid == 1 {
		return true
	}
	space, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	return err == nil && space != machine && parent == 1
}

// CPUMeter counts the CPU time of the workload's processes. It takes it from /proc and not from the container's cgroup:
// that one is read in another way under each version of cgroups and each way to give it a namespace, and under
// Apptainer it is not the workload's own. Where the agent is not alone with its workload it counts its descendants, and
// what leaves them to become a daemon is not seen.
type CPUMeter struct {
	proc string
	self int
	all  bool // every process is the workload's

	mu    sync.Mutex
	last  int64
	total int64
}

// NewCPUMeter begins to count from now on. self is the agent; all says that every process is the workload's.
func NewCPUMeter(proc string, self int, all bool) *CPUMeter {
	m := &CPUMeter{proc: proc, self: self, all: all}
	m.last = used(List(proc), self, all)
	return m
}

// Seconds returns the CPU time since the meter was made. It never shrinks: what a parent that ignores its children's
// ends takes out of the kernel's books stays in these.
func (m *CPUMeter) Seconds() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := used(List(m.proc), m.self, m.all)
	m.total += max(now-m.last, 0)
	m.last = now
	return float64(m.total) / ticksPerSecond
}
