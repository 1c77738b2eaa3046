package slurm

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// queueFields are what squeue prints of a job: its number, its place in an array, account, state, reason, the time of
// its end, nodes and comment. Others' comments may hold anything, also a line's end.
const queueFields = "%F|%K|%u|%T|%r|%e|%N|%k"

// secondsSince1970 has Slurm's commands print times so, whatever the time zone.
const secondsSince1970 = "SLURM_TIME_FORMAT=%s"

// Queue looks at the queue, with a line for each task of an array. What has ended Slurm shows for a while yet.
func (s *system) Queue(ctx context.Context) ([]batch.Job, error) {
	sep := rand.Text()
	out, err := s.run(ctx, command.Command{Name: "squeue", Env: []string{secondsSince1970}, Args: []string{
		"--all", "--array", "--noheader", "--states=all", "--name=" + s.jobName(), "--format=" + sep + queueFields,
	}})
	if err != nil {
		return nil, fmt.Errorf("ask Slurm for its queue: %w", err)
	}
	return parseQueue(string(out), sep, s.owned)
}

// parseQueue reads what squeue prints. Each job begins with a word that nobody could know before.
func parseQueue(out, sep string, own owned) ([]batch.Job, error) {
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
		name := f[0]
		if _, err := strconv.ParseUint(f[1], 10, 32); err == nil { // else it is none of an array
			name += "_" + f[1]
		}
		j := job{name: name, login: f[2], state: f[3], reason: f[4], ends: f[5], node: f[6], comment: f[7]}
		all = append(all, j.seen(own)...)
	}
	return all, nil
}

// historyFields are what sacct prints of a job. Its name comes last, for a record ends with its line.
const historyFields = "Comment,User,State,NodeList,JobID"

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
	return parseHistory(string(out), sep, s.owned)
}

// parseHistory reads what sacct prints, and leaves out what has not ended.
func parseHistory(out, sep string, own owned) ([]batch.Job, error) {
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
		name, rest, _ := strings.Cut(out, "\n")
		out = rest
		j := job{comment: f[0], login: f[1], state: f[2], node: f[3], name: name}
		for _, seen := range j.seen(own) {
			if seen.Over {
				all = append(all, seen)
			}
		}
	}
	slices.Reverse(all) // the latest first
	return all, nil
}

// jobName is the name of all jobs of this service.
func (s *system) jobName() string { return "slipway-" + s.cfg.Instance }

// comment is the comment of a job, by which it is found again. None of its words has a colon.
func (s *system) comment(id, run, mark string) string {
	return strings.Join([]string{commentWord, s.cfg.Instance, id, run, mark}, ":")
}

const commentWord = "slipway"

// owned says whose a job is that has these words in its comment, of the account of that login; task: its place in an
// array, or -1. False: it is none of this service's.
type owned func(instance, login, id, run, mark string, task int) (spawner.ID, string, bool)

// owned is of this service.
func (s *system) owned(instance, login, id, run, mark string, task int) (spawner.ID, string, bool) {
	if !s.marker.Owns(instance, login, id, run, mark) {
		return "", "", false
	}
	if run != arrayRun {
		return spawner.ID(id), run, true
	}
	if task < 0 { // what is left of an array whose last tasks were canceled before they began
		return "", "", false
	}
	t := s.arrays.task(id, task)
	return t.ID, t.Run, true
}

// job is a job in Slurm's words. Its name may stand for several tasks of an array.
type job struct {
	name, login, state, reason, ends, node, comment string
}

// seen returns what of the job is this service's.
func (j job) seen(own owned) (all []batch.Job) {
	f := strings.Split(j.comment, ":")
	number, tasks, ok := parseName(j.name)
	if !ok || len(f) != 5 || f[0] != commentWord {
		return nil
	}
	for _, task := range tasks {
		id, run, is := own(f[1], j.login, f[2], f[3], f[4], task)
		if !is {
			continue
		}
		seen := j.shown()
		seen.ID, seen.Run, seen.Login, seen.Name, seen.Number = id, run, j.login, strconv.FormatInt(number, 10), number
		if task >= 0 {
			seen.Name, seen.Task = taskName(number, task), int64(task)
		}
		all = append(all, seen)
	}
	return all
}

// shown returns the job as its state shows it.
func (j job) shown() batch.Job {
	state, _, _ := strings.Cut(j.state, " ") // "CANCELLED by 1001"
	o := observe(state, j.reason)
	if j.node != "" && j.node != "None assigned" && o.Existence != spawner.Queued {
		o.Host = batch.OneLine(j.node, batch.MaxName)
	}
	if ends, err := strconv.ParseInt(j.ends, 10, 64); err == nil && o.Existence == spawner.Up {
		o.Deadline = time.Unix(ends, 0).Add(-endReserve)
	}
	return batch.Job{
		Begun: o.Host != "" && o.Existence != spawner.Held, Leaving: state == completing, Seen: o,
		Over: o.Existence == spawner.Exited, End: batch.End{
			Code: o.ExitCode, Reason: o.Reason, Remedy: o.Remedy, Host: o.Host, Evicted: o.Evicted,
		},
	}
}
