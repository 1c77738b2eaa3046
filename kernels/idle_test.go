package kernels_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"slipway/kernels"
)

// A websocket that does nothing has small stacks: what lasts as long as one keeps no workload in its frames. Both ends
// of it and the kernel's agent count here, 37 to 48 KiB together; copies of the workload in the frames below the
// handler made it 60 to 65.
func TestIdleClientsAreSmall(t *testing.T) {
	const clients, most = 90, 56 << 10
	s := newSite(t, func(c *kernels.Config) { c.Ping = time.Hour })
	ids := []string{s.start(), s.start(), s.start()}
	open := func(i int) {
		b := s.open(ids[i%len(ids)], fmt.Sprintf("c%d", i))
		b.say(ask("once"))
		b.hears("once")
	}
	for i := range len(ids) {
		open(i)
	}
	before := inUse()
	for i := range clients {
		open(len(ids) + i)
	}
	if each := (inUse() - before) / clients; each > most {
		t.Errorf("a client that does nothing has %d bytes of stacks, and at most %d are expected", each, most)
	}
}

// inUse is the memory of all stacks, once those that were larger for a moment have shrunk: by half each time.
func inUse() uint64 {
	for range 4 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
