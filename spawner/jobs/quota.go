package jobs

import (
	"context"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
)

// demand is what jobs that are asked for together want of what their owner may have.
type demand struct {
	jobs  int
	bytes int64 // of input files
	gpu   bool  // of this host
}

func (j *Jobs) demand(r submission, jobs int) demand {
	d := demand{jobs: jobs, gpu: !r.GPU.None() && !j.engine.IsRemote(r.Backend)}
	for _, content := range r.Files {
		d.bytes += int64(len(content))
	}
	return d
}

// afford refuses jobs where their owner would have too much with them, and returns the reason in a word too.
func (j *Jobs) affordIn(v engine.View, o spawner.Principal, d demand) (string, error) {
	if why, err := v.Sched().Afford(o, d.jobs, d.gpu); err != nil {
		return why, err
	}
	most, have := v.Sched().Allowance(o).Storage, j.engine.JobFiles().Usage(o).Bytes
	if most > 0 && have+d.bytes > most {
		return sched.RefusedStorage, jobfiles.OverQuota(have, d.bytes, most)
	}
	return "", nil
}

// afford refuses jobs where their owner would have too much with them.
func (j *Jobs) afford(o spawner.Principal, d demand) error {
	j.learn(o)
	tx := j.engine.Begin()
	defer tx.End()
	why, err := j.affordIn(tx.View, o, d)
	if err != nil {
		tx.CountRefused(why)
	}
	return err
}

// learn finds out what the jobs of users may have. While that is not surely known, what was known before counts.
func (j *Jobs) learn(owners ...spawner.Principal) {
	if j.cfg.Allowance == nil {
		return
	}
	for _, o := range owners {
		a, sure := j.cfg.Allowance(o.Hub, o.User)
		tx := j.engine.Begin()
		tx.Sched().Allow(o, a, sure)
		tx.End()
	}
}

// relearn does so again for all who have jobs.
func (j *Jobs) relearn() {
	v := j.engine.View()
	owners := v.Sched().Users()
	v.End()
	j.learn(owners...)
}

const relearnEvery = time.Minute

// keepLearning does so from time to time until ctx ends.
func (j *Jobs) keepLearning(ctx context.Context) {
	for j.relearn(); clock.Sleep(ctx, relearnEvery); {
		j.relearn()
	}
}
