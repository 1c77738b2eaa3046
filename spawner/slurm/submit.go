package slurm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// timeSlack is what a job may run above its time limit, which its worker holds it to, before Slurm ends it: for its
// image to arrive, and for its output to be gathered.
const timeSlack = 10 * time.Minute

// What of its time a session has for its beginning and its end: its image arrives, and what it has changed is packed
// and goes to the service. It is stopped endReserve before Slurm's limit. Where nobody has done so, as when the service
// is away, Slurm asks it to end endSignal before the limit.
const (
	sessionSlack = 15 * time.Minute
	endReserve   = 5 * time.Minute
	endSignal    = 2 * time.Minute
)

// timeOf returns how long a workload may run, a job its time limit and a session its age, and what it has beside that;
// zero: as long as the partition gives.
func timeOf(w spawner.Workload) (limit, slack time.Duration) {
	if w.Kind.Session() {
		return w.Spec.Life.MaxAge, sessionSlack
	}
	return w.Spec.TimeLimit, timeSlack
}

// timeOptions say how long a workload may run, in a partition that gives so much at most; zero: any time.
func timeOptions(w spawner.Workload, most time.Duration) (options []string) {
	if w.Kind.Session() {
		options = append(options, fmt.Sprintf("--signal=B:TERM@%.0f", endSignal.Seconds()))
	}
	limit, slack := timeOf(w)
	total := limit + slack
	if most > 0 && limit <= most {
		total = min(total, most)
	}
	if limit > 0 {
		options = append(options, "--time="+strconv.Itoa(int(math.Ceil(total.Minutes()))))
	}
	return options
}

// Describe returns the options that jobs share, one a line.
func (s *system) Describe(w spawner.Workload, r batch.Record) (batch.Description, error) {
	options, err := s.options(w)
	if err != nil {
		return batch.Description{}, err
	}
	program, err := s.program(r.Program)
	if err != nil {
		return batch.Description{}, err
	}
	return batch.Description{Head: strings.Join(append(options, program), "\n")}, nil
}

// programOf returns the program of those that share a description.
func programOf(head string) string { return head[strings.LastIndexByte(head, '\n')+1:] }

// options are what a workload asks of Slurm.
func (s *system) options(w spawner.Workload) ([]string, error) {
	need := w.Spec.Resources
	all := append(
		timeOptions(w, s.known.Load().maxTime), "--ntasks=1", "--cpus-per-task="+strconv.Itoa(max(1, int(math.Ceil(need.CPUs)))),
		fmt.Sprintf("--mem=%dM", (need.Memory+batch.OwnMemory+1<<20-1)>>20),
	)
	gres, err := s.gres(w.Spec.GPU)
	if err != nil {
		return nil, err
	}
	for _, o := range [][2]string{
		{"partition", s.cfg.Partition}, {"account", s.cfg.Account}, {"qos", s.cfg.QOS},
		{"constraint", s.cfg.Constraint}, {"reservation", s.cfg.Reservation}, {"gres", gres},
	} {
		if o[1] != "" {
			all = append(all, "--"+o[0]+"="+o[1])
		}
	}
	return all, nil
}

// gres returns what of Slurm's a request for a GPU is; empty: it asks for none.
func (s *system) gres(r gpu.Request) (string, error) {
	if r.None() {
		return "", nil
	}
	if gres, ok := s.cfg.GRES[r.String()]; ok {
		return gres, nil
	}
	e := errs.New(errs.Forbidden, "the cluster has no GPU that is called %s", r.String())
	if len(s.cfg.GRES) == 0 {
		return "", e.With("leave --gpu out; your administrator can name the cluster's GPUs: slurm.gres")
	}
	var names []string
	for name := range s.cfg.GRES {
		names = append(names, name)
	}
	slices.Sort(names)
	return "", e.With("ask for one of " + strings.Join(names, ", "))
}

// Submit submits one job by itself, and several as arrays. It ends at the first that is refused.
func (s *system) Submit(ctx context.Context, all batch.Submission) ([]batch.Job, error) {
	allowed, err := s.limits(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all.Entries {
		if err := noteProgram(e.Sandbox, programOf(all.Head)); err != nil {
			return nil, fmt.Errorf("note which program %s runs: %w", e.ID, err)
		}
	}
	var jobs []batch.Job
	for part := range slices.Chunk(all.Entries, allowed.tasks) {
		submit := s.submitArray
		if len(part) == 1 {
			submit = s.submitOne
		}
		taken, err := submit(ctx, all, part)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, taken...)
	}
	return jobs, nil
}

func (s *system) submitOne(ctx context.Context, all batch.Submission, e []batch.Entry) ([]batch.Job, error) {
	number, err := s.sbatch(ctx, all, []string{
		"--comment=" + s.comment(string(e[0].ID), e[0].Run, e[0].Mark), "--chdir=" + string(e[0].Sandbox),
		"--output=worker.out", "--error=worker.err",
	}, "")
	if err != nil {
		return nil, err
	}
	return []batch.Job{submitted(number, "", 0)}, nil
}

// sbatch submits a job with some options beside those that all of a submission share. Its script begins with a
// preamble.
func (s *system) sbatch(ctx context.Context, all batch.Submission, own []string, preamble string) (int64, error) {
	options := strings.Split(all.Head, "\n")
	options = options[:len(options)-1]
	out, err := s.run(ctx, command.Command{
		Name: "sbatch",
		Args: slices.Concat([]string{
			"--parsable", "--uid=" + all.Login, "--gid=" + strconv.Itoa(all.GID), "--job-name=" + s.jobName(),
			"--open-mode=append", "--no-requeue", "--export=NIL",
		}, own, options),
		Input: "#!/bin/sh\n" + preamble + "exec " + programOf(all.Head) + " worker\n", Holds: all.Holds,
	})
	if f, ok := command.AsFailure(err); ok && f.Code < 0 {
		return 0, batch.Killed{Err: err}
	}
	if err != nil {
		return 0, err
	}
	return parseSubmitted(string(out))
}

// parseSubmitted reads what sbatch --parsable prints: the job's number, and of several clusters the name of one.
func parseSubmitted(out string) (int64, error) {
	name, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	number, err := strconv.ParseInt(name, 10, 64)
	if err != nil || number <= 0 {
		return 0, fmt.Errorf("sbatch printed %q", batch.OneLine(out, batch.MaxReason))
	}
	return number, nil
}

// submitted is a job right after its submission; task: of an array, as its name has it.
func submitted(number int64, task string, index int64) batch.Job {
	return batch.Job{
		Name: strconv.FormatInt(number, 10) + task, Number: number, Task: index,
		Seen: spawner.Observation{Existence: spawner.Queued, Detail: wait("None").words},
	}
}

// Remove cancels jobs.
func (s *system) Remove(ctx context.Context, _ string, names []string, unbegun bool) error {
	args := expressions(names)
	if unbegun {
		args = append([]string{"--state=PENDING"}, args...)
	}
	_, err := s.run(ctx, command.Command{Name: "scancel", Args: args})
	if f, ok := command.AsFailure(err); ok && f.Code > 0 && !errs.Is(err, errs.Unavailable) && isGone(f.Stderr) {
		return nil
	}
	return err
}

// isGone reports whether all that scancel complains of is that jobs are there no more.
func isGone(complaint string) bool {
	said := strings.ToLower(complaint)
	return strings.Contains(said, "invalid job id") || strings.Contains(said, "already completing or completed")
}
