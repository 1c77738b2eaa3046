package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"slipway/internal/gpu"
)

// named names processes to administrators: "process 4711 (python3), which no workload has started".
func (f *Fleet) named(strangers []gpu.ProcessUse, leftovers []leftover) string {
	var words []string
	for _, p := range strangers {
		words = append(
			words, fmt.Sprintf("process %d (%s), which no workload has started", p.PID, comm(f.cfg.Proc, p.PID)),
		)
	}
	for _, l := range leftovers {
		words = append(
			words,
			fmt.Sprintf("process %d (%s) of %s, which has given it back", l.PID, comm(f.cfg.Proc, l.PID), l.holder),
		)
	}
	return few(words)
}

// few keeps a list short enough to be read.
func few(words []string) string {
	const most = 4
	if len(words) > most {
		words = append(slices.Clone(words[:most]), fmt.Sprintf("%d more", len(words)-most))
	}
	return strings.Join(words, ", ")
}

// comm returns the name of a process below a tree such as /proc, "?" when it is gone. A process names itself as it
// likes.
func comm(root string, pid int) string {
	b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "comm"))
	if err != nil {
		return "?"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSpace(string(b)))
}

// isDaemon reports whether a process is one of MPS's own. The kernel cuts names after 15 letters.
func isDaemon(root string, pid int) bool {
	return strings.HasPrefix(comm(root, pid), "nvidia-cuda-mps")
}

// opener is a process that has a device file open.
type opener struct {
	pid  int
	name string
}

// openers finds, below a tree such as /proc, the processes that have one of the files open. It sees those only that the
// service may look into: all, for root.
func openers(root string, files []string) []opener {
	var found []opener
	links, _ := filepath.Glob(filepath.Join(root, "[0-9]*", "fd", "*")) // the pattern is well formed
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !slices.Contains(files, target) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err != nil || slices.ContainsFunc(found, func(o opener) bool { return o.pid == pid }) {
			continue
		}
		found = append(found, opener{pid: pid, name: comm(root, pid)})
	}
	return found
}

// users names who keeps an instance from being destroyed: those who have its own device files open, or else the GPU's,
// workloads left out, for those are on other instances.
func (f *Fleet) users(d gpu.Device, in gpu.Instance) string {
	var caps []string
	for _, n := range in.Caps {
		caps = append(caps, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n))
	}
	found := openers(f.cfg.Proc, caps)
	if len(found) == 0 {
		found = openers(f.cfg.Proc, []string{fmt.Sprintf("/dev/nvidia%d", d.Minor)})
		found = slices.DeleteFunc(found, func(o opener) bool { return f.whose(o.pid) != "" })
	}
	var words []string
	for _, o := range found {
		words = append(words, fmt.Sprintf("process %d (%s)", o.pid, o.name))
	}
	if len(words) == 0 {
		return "no process that can be seen; monitoring such as DCGM may hold it"
	}
	return few(words)
}
