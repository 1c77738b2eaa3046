// Package batch is the backend of batch systems, such as HTCondor or Slurm: it runs sessions and jobs as jobs of one, of
// which it knows no more than a System tells.
//
//   - Backend starts, observes, stops and removes workloads: what it concludes from what a System shows, or does not.
//   - Queue looks at the system's queue, or at its history, for all who ask; one look serves many. Watch tells whose jobs
//     changed.
//   - Inquiry asks one question for all who want to know.
//   - Batcher joins calls of about the same time, such as submissions and removals, to one command.
//   - Records keeps what is known of a workload's current run on disk, written before the system is asked for anything.
//   - SubmitGuard waits for a submission that goes on though the service which began it was killed.
//   - Marker makes the marks by which a service knows its own jobs from those that others submit in their likeness.
//   - Sandbox holds what travels to the worker, and reads what came back of a run, without trusting any of it.
//
// Promises: all of it is safe for concurrent use; a run of a workload is at most one job, whatever is killed; a look
// that did not answer, or does not show a job, does not end it; a record is whole or not there. The package must not
// know a batch system: what differs between them is the System's.
package batch

import (
	"strings"
	"unicode"
)

// The most bytes of a batch system's words that are shown. Some of them are other users' or other sites'.
const (
	MaxName   = 255
	MaxReason = 400
)

// OneLine makes a text one line, of at most so many bytes, that disturbs no terminal.
func OneLine(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.TrimSpace(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), unicode.IsControl), " "))
}
