package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"slipway/internal/units"
)

// cgroupRoot is where the kernel's control groups are mounted on every host.
const cgroupRoot = "/sys/fs/cgroup"

// memory is what the kernel says of the memory of this process's control group, by either version of them.
type memory struct {
	kills int64 // processes killed for want of memory
	limit int64 // bytes; 0: none is known
}

// readMemory reads it; zero where the kernel says nothing. self is /proc/self/cgroup.
func readMemory(root, self string) memory {
	text, err := os.ReadFile(self)
	if err != nil {
		return memory{}
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		switch {
		case len(f) < 3:
		case f[1] == "memory":
			return memoryIn(filepath.Join(root, "memory", f[2]), "memory.oom_control", "memory.limit_in_bytes")
		case f[0] == "0" && f[1] == "":
			if m := memoryIn(filepath.Join(root, f[2]), "memory.events", "memory.max"); m.limit > 0 {
				return m
			}
		}
	}
	return memory{}
}

func memoryIn(dir, events, limit string) memory {
	var m memory
	text, _ := os.ReadFile(filepath.Join(dir, events))
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			m.kills, _ = strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		}
	}
	text, _ = os.ReadFile(filepath.Join(dir, limit))
	m.limit, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return m
}

// exceeded says that something was killed for want of memory since before; empty when not. Without a limit the numbers
// are the node's, and say nothing of this run.
func (m memory) exceeded(before memory) string {
	const most = int64(1) << 50 // larger limits mean none
	if m.kills <= before.kills || m.limit <= 0 || m.limit > most {
		return ""
	}
	return "out of memory (limit " + units.MemoryWords(m.limit) + ")"
}
