package gputest

import (
	"slices"
	"testing"

	"slipway/internal/gpu"
)

// readCut checks that what a cut GPU cannot measure is said to be unknown, never 0.
func readCut(t *testing.T, b bench) {
	p := b.smallest()
	ins := []gpu.Instance{b.create(t, p, p.Placements[0]), b.create(t, p, p.Placements[1])}
	first := b.read(t, b.dev.UUID)
	r := b.read(t, b.dev.UUID)
	if r.Utilisation != -1 || r.SM != -1 {
		t.Errorf("a cut GPU is read as %+v", r)
	}
	if r.Processes == nil || len(r.Instances) != len(ins) {
		t.Errorf("a GPU that is cut into %d is read as %+v", len(ins), r)
	}
	if r.Energy < first.Energy || r.Power == 0 || r.Temperature == 0 {
		t.Errorf("the GPU is read as %+v, after %+v", r, first)
	}
	for _, in := range ins {
		use, there := r.Instances[in.GI]
		if !there || use.MemoryUsed < -1 || use.MemoryUsed > p.Memory {
			t.Errorf("instance %d is read as %+v, %v", in.GI, use, there)
		}
		if use.SM != -1 && (!b.dev.GPM || use.SM < 0 || use.SM > 100) {
			t.Errorf("the processors of instance %d are read as %v (GPM: %v)", in.GI, use.SM, b.dev.GPM)
		}
	}
}

func processIsSeen(t *testing.T, b bench) {
	crowd, ok := b.Driver.(Crowd)
	if !ok {
		t.Log("does not apply: the driver under test brings no process")
		return
	}
	p := b.smallest()
	in := b.create(t, p, p.Placements[len(p.Placements)-1])
	pid, leave, err := crowd.Busy(b.dev.UUID, in.GI)
	if err != nil {
		t.Fatal(err)
	}
	is := func(u gpu.ProcessUse) bool { return u.PID == pid }
	list := b.read(t, b.dev.UUID).Processes
	i := slices.IndexFunc(list, is)
	if i < 0 || list[i].GI != in.GI || list[i].CI != in.CI || list[i].SM != -1 || list[i].Memory < -1 {
		t.Errorf("process %d on %+v is seen among %+v", pid, in, list)
	}
	leave()
	if list := b.read(t, b.dev.UUID).Processes; slices.ContainsFunc(list, is) {
		t.Errorf("process %d has left, and is seen among %+v", pid, list)
	}
}

func readUncut(t *testing.T, b bench) {
	for _, dev := range b.devices(t) {
		if dev.MIGEnabled {
			continue
		}
		r := b.read(t, dev.UUID)
		if len(r.Instances) > 0 || r.Processes == nil || r.Utilisation < -1 || r.Utilisation > 100 ||
			r.MemoryUsed > dev.Memory {
			t.Errorf("%s, which is not cut, is read as %+v", dev.Name, r)
		}
		if r.SM != -1 && (!dev.GPM || r.SM < 0 || r.SM > 100) {
			t.Errorf("the processors of %s are read as %v (GPM: %v)", dev.Name, r.SM, dev.GPM)
		}
		for _, p := range r.Processes {
			if p.GI != -1 || p.CI != -1 {
				t.Errorf("%s is not cut, and a process is on instance %d: %+v", dev.Name, p.GI, p)
			}
		}
		if there, err := b.Instances(t.Context(), dev.UUID); err != nil || len(there) > 0 {
			t.Errorf("%s is not cut, and is cut into %+v, %v", dev.Name, there, err)
		}
	}
}
