package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"slipway/internal/agent/control"
)

// Memory is what the kernel says of the container's memory, by either version of cgroups. Where it says nothing, kills
// is 0.
type Memory struct {
	kills int64 // processes killed for want of memory
	limit int64 // 0: none known
	peak  int64 // the most that was in use at once; 0: not known
}

// ReadMemory reads the accounts of the control group at root.
func ReadMemory(root string) Memory {
	for _, v := range []struct{ events, limit, peak string }{
		{"memory.events", "memory.max", "memory.peak"},
		{"memory/memory.oom_control", "memory/memory.limit_in_bytes", "memory/memory.max_usage_in_bytes"},
	} {
		b, err := os.ReadFile(root + "/" + v.events)
		if err != nil {
			continue
		}
		return Memory{
			kills: counter(string(b), "oom_kill"), limit: numberIn(root + "/" + v.limit),
			peak: numberIn(root + "/" + v.peak),
		}
	}
	return Memory{}
}

// numberIn returns what a file of the kernel's says; 0: it says no number.
func numberIn(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func counter(text, name string) int64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// Exceeded is the reason of an app that failed between before and m, empty when its limit was not the cause.
func (m Memory) Exceeded(before Memory) string {
	if m.Since(before) == nil {
		return ""
	}
	return fmt.Sprintf("out of memory (limit %.1f GB)", float64(m.limit)/(1<<30))
}

// Since says what was killed between before and m; nil: nothing was. Without a limit the counters are the whole host's
// and say nothing of this app.
func (m Memory) Since(before Memory) *control.OutOfMemory {
	if m.kills <= before.kills || !m.limited() {
		return nil
	}
	return &control.OutOfMemory{Kills: m.kills - before.kills, Limit: m.limit, Peak: m.peak}
}

// limited reports whether the control group is the container's own.
func (m Memory) limited() bool {
	const most = int64(1) << 50 // larger limits mean none
	return m.limit > 0 && m.limit <= most
}

// MemoryInUse returns how many bytes of memory the workload's processes use now; 0: it is not known. In a container with
// a limit it is what the kernel holds against that, but for files that it can drop (the working set). Elsewhere it is
// what the processes have of memory, where what several share is counted once. self is the agent; all says that every
// process in proc is the workload's.
func MemoryInUse(root, proc string, self int, all bool) int64 {
	if ReadMemory(root).limited() {
		for _, v := range []struct{ current, stat, files string }{
			{"memory.current", "memory.stat", "inactive_file"},
			{"memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"},
		} {
			if n := numberIn(root + "/" + v.current); n > 0 {
				b, _ := os.ReadFile(root + "/" + v.stat)
				return max(0, n-counter(string(b), v.files))
			}
		}
	}
	sum := int64(0)
	for _, p := range others(List(proc), self, all) {
		b, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(p.Pid), "smaps_rollup"))
		sum += share(string(b))
	}
	return sum
}

// share returns a process's part of memory in bytes, from its smaps_rollup.
func share(text string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
