package agent

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"slipway/internal/agent/process"
)

// printed returns when a program below a process last wrote to a terminal in dir, or somebody changed the terminal's
// size; zero: none has one. The kernel notes it in whole seconds, and not again within the same eight.
func printed(proc, dir string, pid int) (last time.Time) {
	below := terminalsBelow(process.List(proc), pid)
	if len(below) == 0 {
		return last
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && below[st.Rdev] && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// terminalsBelow returns the terminals of a process's descendants, by their numbers. What has left them, such as tmux,
// is not among them.
func terminalsBelow(list []process.Stat, pid int) map[uint64]bool {
	children := map[int][]process.Stat{}
	for _, p := range list {
		children[p.Parent] = append(children[p.Parent], p)
	}
	found := map[uint64]bool{}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		if tty := next[0].Terminal; tty != 0 {
			found[tty] = true
		}
		next = append(next, children[next[0].Pid]...)
	}
	return found
}
