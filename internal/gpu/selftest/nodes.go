package selftest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// common are the device files that every slice needs, or may have.
var (
	common = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
	spare  = []string{"/dev/nvidia-uvm-tools"}
	aGPU   = regexp.MustCompile(`^/dev/nvidia[0-9]+$`)
	aCap   = regexp.MustCompile(`^/dev/nvidia-caps/nvidia-cap[0-9]+$`)
)

// configures is the capability to cut GPUs into instances: no session may have it.
const configures = "/dev/nvidia-caps/nvidia-cap1"

const bindRemedy = "the binding of the slice is at fault: compare `ls /dev/nvidia*` with the slice's CDI file"

// deviceFiles checks that the device files are exactly those of the slice, and that they open.
func (b *bench) deviceFiles() outcome {
	nodes := b.nodes()
	e := b.cfg.Expect
	if e == nil && len(nodes) == 0 {
		return skipped("there is none")
	}
	if e != nil {
		if o, bad := b.compareNodes(nodes); bad {
			return o
		}
	}
	for _, n := range nodes {
		how := os.O_RDWR
		if aCap.MatchString(n) {
			how = os.O_RDONLY
		}
		f, err := os.OpenFile(b.path(n), how, 0)
		if err != nil && e == nil && aCap.MatchString(n) {
			continue // on a node they are root's
		}
		if err != nil {
			return failed(
				"allow the device in the container, and give its file the mode 0666", "%s does not open: %v", n, err,
			)
		}
		_ = f.Close()
	}
	return ok("%s", strings.Join(nodes, " "))
}

// nodes lists NVIDIA's device files.
func (b *bench) nodes() []string {
	var nodes []string
	for _, pattern := range []string{"/dev/nvidia*", "/dev/nvidia-caps/*"} {
		found, _ := filepath.Glob(b.path(pattern))
		for _, f := range found {
			if st, err := os.Stat(f); err == nil && !st.IsDir() {
				nodes = append(nodes, strings.TrimPrefix(f, b.path("")))
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (b *bench) compareNodes(nodes []string) (outcome, bool) {
	e := b.cfg.Expect
	wanted := e.Nodes
	if len(wanted) == 0 {
		wanted = common
	}
	var missing, extra []string
	for _, w := range wanted {
		if !slices.Contains(nodes, w) {
			missing = append(missing, w)
		}
	}
	gpus, caps := 0, 0
	for _, n := range nodes {
		switch {
		case slices.Contains(wanted, n):
		case len(e.Nodes) == 0 && aGPU.MatchString(n):
			gpus++
		case len(e.Nodes) == 0 && aCap.MatchString(n) && n != configures:
			caps++
		case !slices.Contains(spare, n):
			extra = append(extra, n)
		}
	}
	switch {
	case len(missing) > 0:
		return failed(bindRemedy, "missing: %s", strings.Join(missing, " ")), true
	case len(extra) > 0:
		return failed(bindRemedy, "not of this slice: %s", strings.Join(extra, " ")), true
	case len(e.Nodes) > 0:
		return outcome{}, false
	case gpus == 0 || gpus > len(e.UUIDs):
		return failed(bindRemedy, "%d GPUs have a device file where %d slices are leased", gpus, len(e.UUIDs)), true
	case caps != 2*b.instances():
		return failed(
			bindRemedy, "%d files in /dev/nvidia-caps where %d are of the leased MIG instances", caps, 2*b.instances(),
		), true
	}
	return outcome{}, false
}

// instances counts the leased devices that are MIG instances.
func (b *bench) instances() int {
	n := 0
	for _, u := range b.cfg.Expect.UUIDs {
		if strings.HasPrefix(u, "MIG-") {
			n++
		}
	}
	return n
}
