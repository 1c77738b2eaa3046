package convert

import (
	"slipway/hubapi"
	"slipway/internal/gpu"
	"slipway/spawner"
)

func GPUUse(u gpu.Use) hubapi.GPUUse {
	return hubapi.GPUUse{
		Source: string(u.Source), SM: u.SM, Memory: u.Memory, Peak: u.Peak, Energy: u.Energy, Idle: u.Idle,
		Hint: u.Hint, Unmeasured: u.Unknown,
	}
}

// held shows what a workload holds of a GPU.
func (v *Converter) held(w spawner.Workload) *hubapi.Slice {
	if w.Slice == nil {
		return nil
	}
	out := &hubapi.Slice{
		Name: w.Slice.Name, Model: w.Slice.Model, UUID: w.Slice.GPU, Memory: w.Slice.Memory,
		Isolation: string(w.Slice.Tier),
		Simulated: w.Slice.Simulated, Borrowed: w.Lender != "",
	}
	out.Use = GPUUse(v.UseOf(w))
	return out
}

// UseOf says how much of its slice a workload uses.
func (v *Converter) UseOf(w spawner.Workload) gpu.Use {
	if w.Slice == nil || v.cfg.GPUUse == nil {
		return gpu.Use{}
	}
	return v.cfg.GPUUse(string(w.ID))
}
