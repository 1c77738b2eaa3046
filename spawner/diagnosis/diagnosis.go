// Package diagnosis says how a workload has ended and why it has failed: from what its backend tells, its exit code, and
// the last lines of what it has printed.
//
// Promises: it knows the words of Python, CUDA and the C library for what runs out, and what none of them matches it
// leaves as it is. It never makes a failure a success. It has no clock and does no I/O.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"slipway/internal/units"
	"slipway/spawner"
)

// sign is how one trouble of a payload shows in what it prints.
type sign struct {
	cause spawner.Cause
	forms []string // any of them stands in a line
	names bool     // the word behind the form names what is missing
}

// signs are what programs say when something runs out: their words are no interface, and what none of these matches is
// left as it is.
func signs() []sign {
	return []sign{
		{spawner.CauseGPUMemory, []string{
			"CUDA out of memory", "OutOfMemoryError: CUDA", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError",
			"cudaErrorMemoryAllocation",
			"CUDA_ERROR_OUT_OF_MEMORY", "RESOURCE_EXHAUSTED: Out of memory", "OOM when allocating tensor",
			"CUBLAS_STATUS_ALLOC_FAILED",
			"cupy.cuda.memory.OutOfMemoryError",
		}, false},
		{spawner.CauseModule, []string{"ModuleNotFoundError: No module named ", "ImportError: No module named "}, true},
		{spawner.CauseDisk, []string{"No space left on device", "Disk quota exceeded"}, false},
		{
			spawner.CauseMemory,
			[]string{"MemoryError", "Cannot allocate memory", "std::bad_alloc", "iB for an array with shape"}, false,
		},
	}
}

// diagnosisLines is how near to the end of a payload's output stands what ended it.
const diagnosisLines = 25

// spot finds the last trouble that a payload's output tells of, and what it names.
func spot(tail string) (c spawner.Cause, name string) {
	for _, line := range slices.Backward(LastWords(strings.Split(tail, "\n"))) {
		for _, s := range signs() {
			for _, form := range s.forms {
				_, rest, found := strings.Cut(line, form)
				if found && s.names {
					return s.cause, missing(rest)
				}
				if found {
					return s.cause, ""
				}
			}
		}
	}
	return "", ""
}

// missing reads a module's name as Python writes it: 'uproot', or 'a.b'; 'a' is not a package.
func missing(text string) string {
	text = strings.TrimSpace(text)
	if quote := strings.IndexAny(text, `'"`); quote == 0 {
		text = text[1:]
		text = text[:max(0, strings.IndexAny(text, `'"`))]
	}
	name, _, _ := strings.Cut(strings.Fields(text + " .")[0], ".")
	return name
}

// Of returns an outcome o of w with why the job has failed, in a word: by what its backend tells, its exit code and the
// last lines of what it has printed. Where that says what would help, it is the remedy.
func Of(o spawner.Outcome, w spawner.Workload) spawner.Outcome {
	if !o.Failed || o.Cause != "" && o.Cause != spawner.CauseExit {
		return o
	}
	if told := CauseOf(o.Reason); told != "" {
		o.Cause = told
	} else if found, name := spot(o.Tail); found != "" && o.ExitCode != 0 {
		o.Cause = found
		o.Reason = strings.TrimSuffix(trouble(found, name)+" ("+cmp.Or(exceptionIn(o.Tail), o.Reason)+")", " ()")
		o.Remedy = remedyOf(found, name)
	} else if o.Cause == spawner.CauseExit && o.Signal > 0 {
		o.Cause = spawner.CauseSignal
	} else if exception := exceptionIn(o.Tail); o.Cause == spawner.CauseExit && o.ExitCode != 0 && exception != "" {
		o.Reason, o.Remedy = exception, cmp.Or(o.Remedy, noFileRemedy(exception, w))
	}
	if o.Cause == spawner.CauseMemory {
		o.Remedy = moreMemory(o.MaxRSS, w.Spec.Resources.Memory)
	}
	if o.Cause == spawner.CauseGPUMemory && w.Slice != nil {
		o.Remedy = "it has " + w.Slice.String() + ": " + o.Remedy
	}
	return o
}

// noFileRemedy says how a file comes to a job that has not found it; empty: the exception is another one. A program of
// a notebook expects the files that lie beside it.
func noFileRemedy(exception string, w spawner.Workload) string {
	_, path, found := strings.Cut(exception, "FileNotFoundError: [Errno 2] No such file or directory: ")
	const sent = "pass the value with --in (%%grid), or send the file with --in (slipway submit)"
	switch {
	case !found:
		return ""
	case !strings.HasPrefix(strings.TrimLeft(path, `b'"`), "/"):
		return "a job begins in an empty directory: what lies beside a notebook or script is not in it. " +
			"Open the file by its whole path in your home, " + sent
	case w.Remote:
		return "a worker may not have your home: " + sent
	default:
		return ""
	}
}

// CauseOf reads a backend's words for why it has ended what ran; see Observation.Reason.
func CauseOf(reason string) spawner.Cause {
	for _, told := range []struct {
		begins string
		cause  spawner.Cause
	}{
		{"out of memory", spawner.CauseMemory}, {"time limit", spawner.CauseTime}, {"out of disk", spawner.CauseDisk},
		{"the machine's disk is full", spawner.CauseDisk},
		{"its container could not be made", spawner.CauseStart}, {"it ended unseen", spawner.CauseLost},
	} {
		if strings.HasPrefix(reason, told.begins) {
			return told.cause
		}
	}
	return ""
}

// trouble says in words what a payload has run into.
func trouble(c spawner.Cause, name string) string {
	switch c {
	case spawner.CauseModule:
		return "its environment has no module " + name
	case spawner.CauseGPUMemory:
		return "the memory of its slice of a GPU was not enough"
	case spawner.CauseDisk:
		return "a disk was full, or your quota of it"
	default:
		return "it has got no more memory"
	}
}

func remedyOf(c spawner.Cause, name string) string {
	switch c {
	case spawner.CauseModule:
		return "run %pip install " + name + " in your session, and submit the job again; " +
			"a retry has the same environment, and fails again"
	case spawner.CauseGPUMemory:
		return "ask for a larger slice of a GPU (--gpu), or have it work on less at a time"
	default:
		return "free some space where it writes, or have it write elsewhere; `slipway jobs du` shows what your jobs keep"
	}
}

// moreMemory says how much to ask for where limit was not enough: half as much again, in whole GiB.
func moreMemory(peak, limit int64) string {
	const gib = 1 << 30
	least := max(peak, limit)
	if least <= 0 {
		return "ask for more memory: --mem"
	}
	ask := (least + least/2 + gib - 1) / gib
	return fmt.Sprintf(
		"it needed at least %s: retry it with %d GiB, or submit it with --mem %dG", units.MemoryWords(least), ask, ask,
	)
}

// SignalOf returns the signal of an exit code as shells have it; 0: none.
func SignalOf(code int) int {
	if n := code - 128; n > 0 && n <= int(syscall.SIGSYS) {
		return n
	}
	return 0
}
