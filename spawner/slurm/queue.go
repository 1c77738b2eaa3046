package slurm

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// queueFields are what squeue prints of a job: its number, account, state, reason, nodes and comment. Others' comments
// may hold anything, also a line's end.
const queueFields = "%A|%u|%T|%r|%N|%k"

// Queue looks at the queue. What has ended Slurm shows for a while yet.
func (s *system) Queue(ctx context.Context) ([]batch.Job, error) {
	sep := rand.Text()
	out, err := s.run(ctx, command.Command{Name: "squeue", Args: []string{
		"--all", "--noheader", "--states=all", "--name=" + s.jobName(), "--format=" + sep + queueFields,
	}})
	if err != nil {
		return nil, fmt.Errorf("ask Slurm for its queue: %w", err)
	}
	return parseQueue(string(out), sep, s.marker)
}

// parseQueue reads what squeue prints. Each job begins with a word that nobody could know before.
func parseQueue(out, sep string, own batch.Marker) ([]batch.Job, error) {
	before, rest, any := strings.Cut(out, sep)
	if strings.TrimSpace(before) != "" && !any {
		return nil, fmt.Errorf("squeue printed %q", batch.OneLine(out, batch.MaxReason))
	}
	var all []batch.Job
	for any {
		var text string
		text, rest, any = strings.Cut(rest, sep)
		f := strings.SplitN(strings.TrimSuffix(text, "\n"), "|", strings.Count(queueFields, "|")+1)
		if len(f) != strings.Count(queueFields, "|")+1 {
			return nil, fmt.Errorf("squeue printed %q", batch.OneLine(text, batch.MaxReason))
		}
		j := job{number: f[0], login: f[1], state: f[2], reason: f[3], node: f[4], comment: f[5]}
		if seen, is := j.seen(own); is {
			all = append(all, seen)
		}
	}
	return all, nil
}

// historyFields are what sacct prints of a job. The number comes last, for a record ends with its line.
const historyFields = "Comment,User,State,NodeList,JobIDRaw"

// historySpan is how far back it is asked for jobs that have left the queue.
const historySpan = "now-14days"

// History looks at the jobs that the accounting knows.
func (s *system) History(ctx context.Context) ([]batch.Job, error) {
	sep := rand.Text()
	out, err := s.run(ctx, command.Command{Name: "sacct", Args: []string{
		"--allusers", "--allocations", "--noheader", "--parsable2", "--delimiter=" + sep, "--starttime=" + historySpan,
		"--name=" + s.jobName(), "--format=" + historyFields,
	}})
	if err != nil {
		return nil, fmt.Errorf("ask Slurm for its history: %w", err)
	}
	return parseHistory(string(out), sep, s.marker)
}

// parseHistory reads what sacct prints, and leaves out what has not ended.
func parseHistory(out, sep string, own batch.Marker) ([]batch.Job, error) {
	columns := strings.Count(historyFields, ",") + 1
	var all []batch.Job
	for out != "" {
		var f []string
		for range columns - 1 {
			field, rest, ok := strings.Cut(out, sep)
			if !ok {
				return nil, fmt.Errorf("sacct printed %q", batch.OneLine(out, batch.MaxReason))
			}
			f, out = append(f, field), rest
		}
		number, rest, _ := strings.Cut(out, "\n")
		out = rest
		j := job{comment: f[0], login: f[1], state: f[2], node: f[3], number: number}
		if seen, is := j.seen(own); is && seen.Over {
			all = append([]batch.Job{seen}, all...) // the latest first
		}
	}
	return all, nil
}

// jobName is the name of all jobs of this service.
func (s *system) jobName() string { return "slipway-" + s.cfg.Instance }

// comment is the comment of a job, by which it is found again. None of its words has a colon.
func (s *system) comment(e batch.Entry) string {
	return strings.Join([]string{commentWord, s.cfg.Instance, string(e.ID), e.Run, e.Mark}, ":")
}

const commentWord = "slipway"

// job is a job in Slurm's words.
type job struct {
	number, login, state, reason, node, comment string
}

// seen returns the job, if it is this service's.
func (j job) seen(own batch.Marker) (batch.Job, bool) {
	f := strings.Split(j.comment, ":")
	number, err := strconv.ParseInt(j.number, 10, 64)
	if err != nil || len(f) != 5 || f[0] != commentWord || !own.Owns(f[1], j.login, f[2], f[3], f[4]) {
		return batch.Job{}, false
	}
	state, _, _ := strings.Cut(j.state, " ") // "CANCELLED by 1001"
	o := observe(state, j.reason)
	if j.node != "" && j.node != "None assigned" && o.Existence != spawner.Queued {
		o.Host = batch.OneLine(j.node, batch.MaxName)
	}
	e := batch.End{
		Code: o.ExitCode, Reason: o.Reason, Remedy: o.Remedy, Host: o.Host, Evicted: o.Evicted,
	}
	return batch.Job{
		ID: spawner.ID(f[2]), Run: f[3], Login: j.login, Name: j.number, Number: number,
		Begun: o.Host != "" && o.Existence != spawner.Held, Leaving: state == completing, Seen: o,
		Over: o.Existence == spawner.Exited, End: e,
	}, true
}
