package process

import (
	"fmt"
	"os"
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
	const most = int64(1) << 50 // larger limits mean none
	if m.kills <= before.kills || m.limit <= 0 || m.limit > most {
		return nil
	}
	return &control.OutOfMemory{Kills: m.kills - before.kills, Limit: m.limit, Peak: m.peak}
}
