package diagnosis

import (
	"strings"

	"slipway/spawner"
)

// AnotherKernel is what a user can do whose kernel has ended. What ran in it is over, and so are the words of sessions, which
// come back.
const AnotherKernel = "start another, and run what you need again"

// noOther is what a user can do whose kernel does not come up.
const noOther = "choose another kernel, or tell your administrator"

const lastWords = 300 // bytes of what a kernel said last that stand in why it ended

// OfKernel has an end of a kernel's tell its user what she can do with a kernel. Words for sessions tell how those come
// back.
func OfKernel(o spawner.Outcome, ran bool) spawner.Outcome {
	switch {
	case CauseOf(o.Reason) == spawner.CauseMemory:
		o.Remedy = "choose a kernel with more memory, or work on less at a time"
		return o
	case !ran:
		return unbegun(o)
	default:
		o.Remedy = AnotherKernel
		return o
	}
}

// unbegun says of a kernel that has ended before it ever answered what it said last itself: nobody sees the output of
// one that is gone. It has no clock and does no I/O.
func unbegun(o spawner.Outcome) spawner.Outcome {
	lines := LastWords(strings.Split(o.Tail, "\n"))
	switch {
	case o.ExitCode == NotThere:
		o.Remedy = "choose another kernel, or have your administrator look at this one: its program must be in its image"
	case lacksIPython(lines):
		o.Cause, o.Reason = spawner.CauseModule, "its environment has no ipykernel, by which Jupyter runs Python"
		o.Remedy = "choose another kernel, or have ipykernel installed in this one's image or environment: python3 -m pip install ipykernel"
	case o.Remedy == "" || o.Remedy == StartFresh:
		o.Remedy = noOther
	}
	if n := len(lines); n > 0 && o.Cause != spawner.CauseModule && !strings.Contains(o.Reason, lines[n-1]) {
		o.Reason += "; it said last: " + strings.ToValidUTF8(lines[n-1][:min(len(lines[n-1]), lastWords)], "")
	}
	return o
}

// lacksIPython reports whether Python has said that there is no ipykernel.
func lacksIPython(lines []string) bool {
	for _, line := range lines {
		if _, name, found := strings.Cut(line, "No module named "); found && strings.HasPrefix(strings.Trim(name, `'"`), "ipykernel") {
			return true
		}
	}
	return false
}
