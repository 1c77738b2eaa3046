package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is what a group has used.
type Usage struct {
	OOMKills   int64   `json:"oom_kills"`   // processes that the kernel killed for want of memory
	MemoryPeak int64   `json:"memory_peak"` // bytes; zero: unknown
	CPU        float64 `json:"cpu"`         // seconds
}

// Usage reads the group's account. What the kernel does not tell stays zero: it is for the report only.
func (g Group) Usage() Usage {
	if g.unified {
		return Usage{
			OOMKills:   keyed(g.read("memory", "memory.events"), "oom_kill"),
			MemoryPeak: number(g.read("memory", "memory.peak")),
			CPU:        float64(keyed(g.read("cpu", "cpu.stat"), "usage_usec")) / 1e6,
		}
	}
	return Usage{
		OOMKills:   keyed(g.read("memory", "memory.oom_control"), "oom_kill"),
		MemoryPeak: number(g.read("memory", "memory.max_usage_in_bytes")),
		CPU:        float64(number(g.read("cpuacct", "cpuacct.usage"))) / 1e9,
	}
}

// Refused returns how many processes and threads the kernel has refused the group because of its limit.
func (g Group) Refused() int64 {
	return keyed(g.read("pids", "pids.events"), "max")
}

// read returns one of the kernel's files about the group; nothing when it is not there.
func (g Group) read(controller, file string) []byte {
	data, _ := os.ReadFile(filepath.Join(g.dir(controller), file))
	return data
}

// keyed reads the value of a key from a file of lines `key value`; zero when it is not there.
func keyed(data []byte, key string) int64 {
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			return number([]byte(f[1]))
		}
	}
	return 0
}

// number reads a file that holds one number; zero when it holds none.
func number(data []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// parsePids reads a list of process IDs. Those of 0 and 1, which a process outside of this one's view would show as,
// are an error: a signal to them would go astray.
func parsePids(data []byte) ([]int, error) {
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		pid, err := strconv.ParseInt(f, 10, 32)
		if err != nil || pid <= 1 {
			return nil, fmt.Errorf("process ID %q is none of a job", f)
		}
		pids = append(pids, int(pid))
	}
	return pids, nil
}
