package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/usage"
	"slipway/spawner"
)

// makeUsage opens what was measured before.
func (s *service) makeUsage(ctx context.Context) (err error) {
	s.usage, err = usage.Open(ctx, usage.Config{
		Store: s.store,
		Each: func(each func(w *spawner.Workload)) {
			_ = s.engine.Each(context.Background(), spawner.Caller{System: true}, "", each) // fails for a scan alone
		},
		Heard: s.heard,
		Activity: func(ctx context.Context, id spawner.ID) (control.Activity, error) {
			return agents{s.links}.client(id).Activity(ctx)
		},
		GPU:    s.gpuUse,
		Stored: func(o spawner.Principal) int64 { return s.engine.JobFiles().Usage(o).Bytes },
		Logger: s.log,
	})
	return err
}

// heard returns what a session's agent has said last: it is asked now and then whether the session idles.
func (s *service) heard(id spawner.ID) usage.Reading {
	v := s.engine.View()
	defer v.End()
	e := v.Entry(id)
	if e == nil {
		return usage.Reading{}
	}
	return usage.Reading{At: e.Pulse.Looked, CPU: e.Pulse.CPU, Memory: e.Pulse.Memory}
}

// siteUsage is what was measured, with who is in which group.
type siteUsage struct {
	*usage.Meter
	service *service
}

// GPUHours returns the GPU hours of a hub's users by the hour and their first group.
func (u siteUsage) GPUHours(hub string, since time.Time) (out []hubapi.GroupHours) {
	type key struct {
		hour  int64
		group string
	}
	sums := map[key]float64{}
	for o, hours := range u.service.gpuHours(since) {
		if o.Hub != hub {
			continue
		}
		group := ""
		if groups := u.service.groupsOf(o.Hub, o.User); len(groups) > 0 {
			group = groups[0]
		}
		for hour, n := range hours {
			sums[key{hour, group}] += n
		}
	}
	for k, n := range sums {
		out = append(out, hubapi.GroupHours{At: time.Unix(k.hour*3600, 0).UTC(), Group: k.group, Hours: n})
	}
	slices.SortFunc(out, func(a, b hubapi.GroupHours) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Group, b.Group))
	})
	return out
}

// gpuHours returns what users have had of GPUs since a time, by the hour of the clock since 1970.
func (s *service) gpuHours(since time.Time) map[spawner.Principal]map[int64]float64 {
	v := s.engine.View()
	defer v.End()
	return v.Sched().GPUHoursSince(since)
}
