package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// options are what a workload asks of Slurm.
func (s *system) options(w spawner.Workload) ([]string, error) {
	need := w.Spec.Resources
	all := []string{
		"--ntasks=1", "--cpus-per-task=" + strconv.Itoa(max(1, int(math.Ceil(need.CPUs)))),
		fmt.Sprintf("--mem=%dM", (need.Memory+batch.OwnMemory+1<<20-1)>>20),
	}
	if w.Spec.TimeLimit > 0 {
		all = append(all, "--time="+strconv.Itoa(int(math.Ceil((w.Spec.TimeLimit+timeSlack).Minutes()))))
	}
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

// atOnce is how many jobs are submitted side by side.
const atOnce = 4

// Submit submits jobs one by one, some side by side.
func (s *system) Submit(ctx context.Context, all batch.Submission) ([]batch.Job, error) {
	jobs, failed := make([]batch.Job, len(all.Entries)), make([]error, len(all.Entries))
	var group sync.WaitGroup
	next := make(chan int)
	for range min(atOnce, len(all.Entries)) {
		group.Go(func() {
			for i := range next {
				jobs[i], failed[i] = s.submitOne(ctx, all, all.Entries[i])
			}
		})
	}
	for i := range all.Entries {
		next <- i
	}
	close(next)
	group.Wait()
	if err := firstOf(failed); err != nil {
		return nil, err
	}
	return jobs, nil
}

// firstOf returns the first error that leaves it open whether a job was taken, or else the first.
func firstOf(failed []error) error {
	var first error
	for _, err := range failed {
		if _, killed := errors.AsType[batch.Killed](err); killed {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (s *system) submitOne(ctx context.Context, all batch.Submission, e batch.Entry) (batch.Job, error) {
	options := strings.Split(all.Head, "\n")
	options, program := options[:len(options)-1], options[len(options)-1]
	args := append([]string{
		"--parsable", "--uid=" + all.Login, "--gid=" + strconv.Itoa(all.GID), "--job-name=" + s.jobName(), "--comment=" + s.comment(e),
		"--chdir=" + string(e.Sandbox), "--output=worker.out", "--error=worker.err", "--open-mode=append",
		"--no-requeue", "--export=NIL",
	}, options...)
	out, err := s.run(ctx, command.Command{
		Name: "sbatch", Args: args, Input: "#!/bin/sh\nexec " + program + " worker\n", Holds: all.Holds,
	})
	if f, ok := command.AsFailure(err); ok && f.Code < 0 {
		return batch.Job{}, batch.Killed{Err: err}
	}
	if err != nil {
		return batch.Job{}, err
	}
	return parseSubmitted(string(out))
}

// parseSubmitted reads what sbatch --parsable prints: the job's number, and of several clusters the name of one.
func parseSubmitted(out string) (batch.Job, error) {
	name, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	number, err := strconv.ParseInt(name, 10, 64)
	if err != nil || number <= 0 {
		return batch.Job{}, fmt.Errorf("sbatch printed %q", batch.OneLine(out, batch.MaxReason))
	}
	return batch.Job{
		Name: strconv.FormatInt(number, 10), Number: number,
		Seen: spawner.Observation{Existence: spawner.Queued, Detail: wait("None").words},
	}, nil
}

// Remove cancels jobs.
func (s *system) Remove(ctx context.Context, _ string, names []string, unbegun bool) error {
	args := names
	if unbegun {
		args = append([]string{"--state=PENDING"}, names...)
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

// copyProgram puts a program where every user can run it, whatever the umask.
func copyProgram(from, to string) (err error) {
	dir := filepath.Dir(to)
	err = errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755))
	if err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part, err := os.CreateTemp(filepath.Dir(to), ".part-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(part, in)
	if err = errors.Join(err, part.Chmod(0o755), part.Sync(), part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return os.Rename(part.Name(), to)
}
