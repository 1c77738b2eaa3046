package gpu

import "testing"

func TestReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"NVIDIA_VISIBLE_DEVICES": true, "NVIDIA_MIG_CONFIG_DEVICES": true, "CUDA_VISIBLE_DEVICES": true, "CUDA_MPS_PIPE_DIRECTORY": true,
		"SLIPWAY_GPU": true, "SLIPWAY_GPU_EXPECT": true, "CUDA_DEVICE_ORDER": false, "CUDA_HOME": false, "SLIPWAY_ID": false, "": false,
	} {
		if Reserved(name) != want {
			t.Errorf("Reserved(%q) = %v", name, !want)
		}
	}
}
