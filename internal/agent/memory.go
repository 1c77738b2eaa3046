package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"slipway/internal/agent/control"
)

// memory is what the kernel says of the container's memory, by either version of cgroups. Where it says nothing, kills
// is 0.
type memory struct {
	kills int64 // processes killed for want of memory
	limit int64 // 0: none known
	peak  int64 // the most that was in use at once; 0: not known
}

func readMemory(root string) memory {
	for _, v := range []struct{ events, limit, peak string }{
		{"memory.events", "memory.max", "memory.peak"},
		{"memory/memory.oom_control", "memory/memory.limit_in_bytes", "memory/memory.max_usage_in_bytes"},
	} {
		b, err := os.ReadFile(root + "/" + v.events)
		if err != nil {
			continue
		}
		return memory{kills: counter(string(b), "oom_kill"), limit: numberIn(root + "/" + v.limit), peak: numberIn(root + "/" + v.peak)}
	}
	return memory{}
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

// exceeded is the reason of an app that failed between before and m, empty when its limit was not the cause.
func (m memory) exceeded(before memory) string {
	if m.since(before) == nil {
		return ""
	}
	return fmt.Sprintf("out of memory (limit %.1f GB)", float64(m.limit)/(1<<30))
}

// since says what was killed between before and m; nil: nothing was. Without a limit the counters are the whole host's
// and say nothing of this app.
func (m memory) since(before memory) *control.OutOfMemory {
	const most = int64(1) << 50 // larger limits mean none
	if m.kills <= before.kills || m.limit <= 0 || m.limit > most {
		return nil
	}
	return &control.OutOfMemory{Kills: m.kills - before.kills, Limit: m.limit, Peak: m.peak}
}

// memoryEvery is how often it is looked whether the kernel has killed something of a session.
const memoryEvery = 2 * time.Second

// watchMemory tells of each process that was killed for want of memory while the app goes on, until that has exited.
func (s *supervisor) watchMemory(root string, before memory) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	told := int64(0)
	for {
		select {
		case <-tick.C:
		case <-s.over:
			return
		case <-s.agent.ctx.Done():
			return
		}
		o := readMemory(root).since(before)
		if o == nil || o.Kills == told {
			continue
		}
		told = o.Kills
		s.agent.log.Warn("out of memory: processes of the session were killed", "killed", o.Kills, "limit", o.Limit, "peak", o.Peak)
		s.set(func(st *control.Status) { st.OutOfMemory = o })
	}
}
