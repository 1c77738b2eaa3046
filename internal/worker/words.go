package worker

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/apptainer"
)

const (
	administrator = "tell your administrator, naming the worker node"
	damaged       = "the image is damaged"
	fullDisk      = "the disk of the worker node is full"
	moreDisk      = "ask for more disk, or start it again: another node may have room"
)

// trouble is something that Apptainer says when it cannot make a container, and what that means.
type trouble struct{ says, reason, remedy string }

// troubles are looked for in this order.
func troubles() []trouble {
	const userns = administrator + ": user namespaces must be allowed there (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, " +
		"kernel.apparmor_restrict_unprivileged_userns)"
	return []trouble{
		{
			"user namespace", "the worker node does not let users make containers: user namespaces are forbidden there",
			userns,
		},
		{"unshare", "the worker node does not let users make containers: user namespaces are forbidden there", userns},
		{"no space left on device", fullDisk, moreDisk},
		{"disk quota exceeded", fullDisk, moreDisk},
		{
			"unknown userid", "the worker node does not know the user that the run has there",
			administrator + ": its accounts must be in the node's table of users",
		},
		{
			"could not run on the host", "the environment is made for another kind of processor than the worker node's",
			"ask for nodes of the environment's architecture",
		},
		{
			"/dev/fuse", "the worker node cannot mount the image: FUSE is not to be had there",
			administrator + ": /dev/fuse must be there, and open to everybody",
		},
		{"squashfuse", "the worker node cannot mount the image", administrator + ": Apptainer needs squashfuse there"},
		{
			"overlay", "the worker node cannot keep a session's changes: it has no overlays for Apptainer",
			administrator + ": `enable overlay` in apptainer.conf, and fuse-overlayfs",
		},
		{"image format not recognized", damaged, "start it again; if that does not help, freeze the environment again"},
		{"incompatible sif", damaged, "start it again; if that does not help, freeze the environment again"},
		{"could not open image", "the image cannot be opened on the worker node", administrator},
	}
}

// noContainerCode is the exit code by which Apptainer says that it could not make the container.
const noContainerCode = 255

// whatStays says what there is still when a session's changes are lost.
func (w *worker) whatStays() string {
	if w.plan.keepsHome() {
		return "start it again: it goes on from what was kept before"
	}
	return "what is in its home is there still"
}

// account is the end of a run that had begun.
func (w *worker) account(h how, left remains, memory string) End {
	e := w.end(h.code, "", "")
	e.Tail, e.PackSize = h.tail+left.missed, left.pack
	switch {
	case h.late:
		e.Reason, e.Remedy = fmt.Sprintf("time limit of %s reached", w.plan.TimeLimit), "ask for more time: --time"
		e.ExitCode = max(e.ExitCode, 1)
	case memory != "" && e.ExitCode != 0:
		e.Reason, e.Remedy = memory, "ask for more memory: --mem"
	case h.asked:
		e.Reason = "it was asked to end by the batch system"
	case e.ExitCode != 0 && w.box.full():
		e.Reason, e.Remedy = fullDisk, moreDisk
	case left.status && w.plan.Session && !w.plan.Fleeting && left.pack == 0:
		e.Reason, e.Remedy = "what the session had changed could not be kept: its last lines say why", w.whatStays()
	case left.status:
	case h.code > 128 && h.code < noContainerCode:
		e.Reason, e.Remedy = fmt.Sprintf(
			"its container was killed on the worker node by signal %d (%s)", h.code-128, unix.Signal(h.code-128),
		), "start it again"
	default:
		e.Reason, e.Remedy = noContainer(h.tail)
		e.ExitCode = max(e.ExitCode, 1)
	}
	return e
}

// noContainer says why an agent has left nothing, by what Apptainer said.
func noContainer(said string) (reason, remedy string) {
	complaint := complaints(said)
	plain := strings.ToLower(complaint)
	for _, t := range troubles() {
		if strings.Contains(plain, t.says) {
			return t.reason, t.remedy
		}
	}
	if reason := apptainer.Fatal(complaint); reason != "" {
		return "its container could not be made: " + reason, administrator
	}
	return "its agent ended without a word on how it went", administrator
}

// complaints are the lines by which Apptainer, or the program that gives it its root, says what went wrong.
func complaints(said string) string {
	var b strings.Builder
	for line := range strings.Lines(apptainer.Plain(said)) {
		if strings.Contains(line, "FATAL") || strings.Contains(line, "ERROR") || strings.HasPrefix(line, "unshare:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// full reports whether a disk of the run's has no room left.
func (s sandbox) full() bool { return fullAt(s.local) || fullAt(s.dir) }

func fullAt(dir string) bool {
	const little = 1 << 20
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	return st.Bavail*uint64(st.Bsize) < little || st.Files > 0 && st.Ffree == 0
}
