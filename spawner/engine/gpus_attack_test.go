package engine_test

import (
	"testing"
	"testing/synctest"

	"slipway/internal/errs"
)

// TestAJobNamesNoGPU: variables that would choose a GPU are refused when the job is submitted, and not when its turn
// has come.
func TestAJobNamesNoGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newGPUService(t, 1)
		for _, name := range []string{"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "SLIPWAY_GPU_EXPECT"} {
			r := gpuJob(false)
			r.Env = map[string]string{"OMP_NUM_THREADS": "1", name: "all"}
			if _, err := s.SubmitJob(t.Context(), bob, r); !errs.Is(err, errs.Invalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
