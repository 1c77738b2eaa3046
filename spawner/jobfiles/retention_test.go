package jobfiles_test

import (
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

func TestExpires(t *testing.T) {
	end := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	const keep = 48 * time.Hour
	job := spawner.Workload{Kind: spawner.Job, Phase: spawner.Stopped, Outcome: &spawner.Outcome{At: end}}
	session, runs, unknown := job, job, job
	session.Kind, runs.Phase, unknown.Outcome = spawner.Lab, spawner.Running, nil
	for name, tt := range map[string]struct {
		w      spawner.Workload
		active bool
		ended  time.Time
		keep   time.Duration
		want   time.Time
	}{
		"a job":                      {w: job, keep: keep, want: end.Add(keep)},
		"of a scan that goes on":     {w: job, active: true, ended: end, keep: keep},
		"of a scan that ended later": {w: job, ended: end.Add(time.Hour), keep: keep, want: end.Add(keep + time.Hour)},
		"the last of its scan":       {w: job, ended: end.Add(-time.Hour), keep: keep, want: end.Add(keep)},
		"where nothing expires":      {w: job},
		"one that runs":              {w: runs, keep: keep},
		"one without an outcome":     {w: unknown, keep: keep},
		"a session":                  {w: session, keep: keep},
	} {
		if got := jobfiles.Expires(&tt.w, tt.active, tt.ended, tt.keep); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
