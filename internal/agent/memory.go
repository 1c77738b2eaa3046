package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memory is what the kernel says of the container's memory, by either version of cgroups. Where it says nothing, kills is 0.
type memory struct {
	kills int64 // processes killed for want of memory
	limit int64 // 0: none known
}

func readMemory(root string) memory {
	for _, v := range []struct{ events, limit string }{
		{"memory.events", "memory.max"},
		{"memory/memory.oom_control", "memory/memory.limit_in_bytes"},
	} {
		b, err := os.ReadFile(root + "/" + v.events)
		if err != nil {
			continue
		}
		m := memory{kills: counter(string(b), "oom_kill")}
		if b, err := os.ReadFile(root + "/" + v.limit); err == nil {
			m.limit, _ = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		}
		return m
	}
	return memory{}
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

// exceeded is the reason of an app that failed between before and m, empty when its limit was not the cause. Without a limit
// the counters are the whole host's and say nothing of this app.
func (m memory) exceeded(before memory) string {
	const most = int64(1) << 50 // larger limits mean none
	if m.kills <= before.kills || m.limit <= 0 || m.limit > most {
		return ""
	}
	return fmt.Sprintf("out of memory (limit %.1f GB)", float64(m.limit)/(1<<30))
}
