package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is CPU time by who has used it, in seconds.
type usage struct{ service, shims, containers, hand float64 }

func (u usage) minus(o usage) usage {
	return usage{u.service - o.service, u.shims - o.shims, u.containers - o.containers, u.hand - o.hand}
}

// ms returns each part in milliseconds a point.
func (u usage) ms(points int) [4]float64 {
	f := 1000 / float64(points)
	return [4]float64{u.service * f, u.shims * f, u.containers * f, u.hand * f}
}

// used reads what the service and its jobs have used until now. The group above those of the jobs keeps what ended ones
// have used.
func (s *site) used() (usage, error) {
	stat, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return usage{}, err
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	u := usage{}
	for _, ticks := range f[11:15] { // its own, and its ended children's
		n, err := strconv.ParseFloat(ticks, 64)
		if err != nil {
			return usage{}, err
		}
		u.service += n / 100
	}
	all, aerr := groupUsage(s.group())
	u.hand, err = groupUsage(s.handGroup())
	aerr = errors.Join(aerr, err)
	u.shims, err = groupUsage(s.group() + "/shims")
	u.containers = all - u.shims - u.hand
	return u, errors.Join(aerr, err)
}

// handGroup is that of what is run by hand.
func (s *site) handGroup() string { return s.group() + "/by-hand" }

func (s *site) makeHandGroup() error {
	roots := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"}
	if _, err := os.Stat(roots[0]); err != nil {
		roots = []string{"/sys/fs/cgroup"}
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, s.handGroup()), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// group is that of the service's jobs, below the root of the control groups.
func (s *site) group() string { return filepath.Base(s.dir) + "/" + filepath.Base(s.dir) }

// groupUsage reads a control group's CPU time, in either version of the kernel's interface.
func groupUsage(name string) (float64, error) {
	const root = "/sys/fs/cgroup"
	if text, err := os.ReadFile(filepath.Join(root, "cpuacct", name, "cpuacct.usage")); err == nil {
		ns, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return ns / 1e9, err
	}
	text, err := os.ReadFile(filepath.Join(root, name, "cpu.stat"))
	if errors.Is(err, fs.ErrNotExist) { // no job has run yet
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			us, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return us / 1e6, err
		}
	}
	return 0, fmt.Errorf("no usage of the control group %s", name)
}
