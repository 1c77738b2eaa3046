package gpu

import "strings"

// Reserved reports whether a variable decides, or tells, which GPUs a container sees. It follows from the slice alone:
// nobody may set it, neither a user nor a profile, for a vendor's runtime would obey it.
func Reserved(name string) bool {
	return strings.HasPrefix(name, "NVIDIA_") || name == "CUDA_VISIBLE_DEVICES" ||
		strings.HasPrefix(name, "CUDA_MPS_") || strings.HasPrefix(name, "SLIPWAY_GPU")
}
