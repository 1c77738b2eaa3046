package metering

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"slipway/internal/gpu"
)

// note takes a round's readings: first those of the GPUs, then each workload's part in them.
func (s *Sampler) note(now time.Time, held []gpu.Lease, looks []look, owners map[int]string) {
	byGPU := map[string][]part{}
	for _, p := range parts(held, looks) {
		byGPU[p.lease.Slice.GPU] = append(byGPU[p.lease.Slice.GPU], p)
	}
	here := map[string]bool{}
	for _, k := range looks {
		uuid := k.state.Device.UUID
		here[uuid] = true
		s.noteGPU(k, byGPU[uuid], owners)
	}
	for uuid, ps := range byGPU {
		if !here[uuid] {
			s.noteNothing(now, gpu.Device{UUID: uuid}, ps, "its GPU is not there any more")
		}
	}
	maps.DeleteFunc(s.gpus, func(uuid string, _ *meter) bool { return !here[uuid] })
	s.forget(now, byGPU)
}

func (s *Sampler) noteGPU(k look, ps []part, owners map[int]string) {
	m := s.gpus[k.state.Device.UUID]
	if m == nil {
		m = &meter{}
		s.gpus[k.state.Device.UUID] = m
	}
	if k.err != nil {
		s.noteFault(k, m)
		s.noteNothing(k.at, k.state.Device, ps, "its GPU could not be read: "+k.err.Error())
		return
	}
	if m.fault != "" {
		s.cfg.Logger.Info("the GPU can be read again", "gpu", k.state.Device.UUID)
	}
	fresh := m.at.IsZero() || m.fault != ""
	joules, floor, metered := m.take(k.reading, k.at, s.gap())
	portions := make([]portion, len(ps))
	for i, p := range ps {
		sample := p.measure(k.state.Device, k.reading, owners, s.cfg.BusySM)
		if fresh && sample.sm >= 0 { // opening the driver alone shows as work
			sample.sm, sample.busiest, sample.load, sample.why = unknown, unknown, unknown, "the first figures after a start are not counted"
		}
		portions[i] = portion{sms: p.lease.Slice.SMs, load: sample.load, processes: sample.processes}
		s.record(p, k.state.Device, k.at).observe(k.at, s.began, sample, s.cfg, s.gap())
	}
	if !metered {
		return
	}
	for i, j := range share(joules, floor, k.state.Device.SMs, strangers(k, owners), onlyUsers(ps, portions)) {
		r := s.records[ps[i].id]
		r.joules, r.metered = r.joules+j, true
	}
}

// onlyUsers leaves a slice that is lent to the job that has it.
func onlyUsers(ps []part, portions []portion) []portion {
	for i, p := range ps {
		if p.lease.Lent != "" && !p.borrowed {
			portions[i] = portion{}
		}
	}
	return portions
}

// strangers is the work of processes that are nobody's, where processes are told apart: they use energy too.
func strangers(k look, owners map[int]string) float64 {
	if k.state.Mode != gpu.MPS && k.state.Mode != gpu.Shared || owners == nil {
		return 0
	}
	_, _, sm := count(k.reading.Processes, func(p gpu.ProcessUse) bool { return owners[p.PID] == "" })
	return max(sm, 0) / 100 * float64(k.state.Device.SMs)
}

// noteFault says once that a GPU cannot be read.
func (s *Sampler) noteFault(k look, m *meter) {
	if m.fault == "" {
		s.cfg.Logger.Warn(
			"the GPU cannot be read: nobody knows how its slices are used", "gpu", k.state.Device.UUID, "err", k.err,
		)
	}
	m.fault = k.err.Error()
}

func (s *Sampler) noteNothing(at time.Time, d gpu.Device, ps []part, why string) {
	for _, p := range ps {
		s.record(p, d, at).observe(at, s.began, nothing(why), s.cfg, s.gap())
	}
}

// record returns the record of a part; a workload that holds another slice than before has a new one. A borrower whose
// lender has gone is its slice's holder, and goes on as before.
func (s *Sampler) record(p part, d gpu.Device, at time.Time) *record {
	lease := p.lease
	if lease.Holder = p.id; p.borrowed {
		lease.Lent, lease.Since = "", at
	}
	r := s.records[p.id]
	if r != nil && r.released.IsZero() && r.lease.Slice == lease.Slice && (p.borrowed || r.borrowed ||
		r.lease.Since.Equal(lease.Since)) {
		if len(d.Profiles) > 0 || r.device.UUID == "" {
			r.device = d
		}
		r.lease, r.borrowed = lease, p.borrowed
		return r
	}
	r = newRecord(lease, d)
	r.borrowed = p.borrowed
	s.records[p.id] = r
	return r
}

// forget marks who has left, and drops those who left long ago, or are too many.
func (s *Sampler) forget(now time.Time, byGPU map[string][]part) {
	holds := map[string]bool{}
	for _, ps := range byGPU {
		for _, p := range ps {
			holds[p.id] = true
		}
	}
	var gone []string
	for id, r := range s.records {
		if !holds[id] && r.released.IsZero() {
			r.release(now)
		}
		if !r.released.IsZero() {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, func(a, b string) int {
		return cmp.Compare(s.records[b].released.UnixNano(), s.records[a].released.UnixNano())
	})
	for i, id := range gone {
		if i >= s.cfg.Keep || now.Sub(s.records[id].released) > forgetAfter {
			delete(s.records, id)
		}
	}
}
