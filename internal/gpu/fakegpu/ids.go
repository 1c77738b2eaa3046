package fakegpu

import (
	"crypto/sha1" // UUIDs of version 5 are made with it
	"fmt"

	"slipway/internal/gpu"
)

// uuid makes a UUID of version 5 of a name: the same name, the same UUID.
func uuid(kind, name string) string {
	sum := sha1.Sum([]byte("slipway simulated " + name))
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// gpuUUID names a GPU by its index on the host and its model.
func gpuUUID(index int, word string) string {
	return uuid("GPU", fmt.Sprintf("gpu %d %s", index, word))
}

// migUUID names a MIG device by its ids alone. So one that is created later with the same ids has the same UUID,
// whatever its profile: nobody may know an instance by its UUID alone.
func migUUID(device string, gi, ci int) string {
	return uuid("MIG", fmt.Sprintf("%s gi %d ci %d", device, gi, ci))
}

// giOf numbers GPU instances as drivers do: by the node of the binary tree over the axis, the upper half before the
// lower. All profiles of one place have one number.
func giOf(slots int, at gpu.Placement) int {
	parts := 1
	for slots/parts > at.Size {
		parts *= 2
	}
	if parts == 1 {
		return 0
	}
	return parts - 1 + (at.Start/at.Size+parts/2)%parts
}

// capsPerGPU and capsPerGI are how /proc/driver/nvidia-caps/mig-minors counts: a GPU has 15 instances, an instance 8
// compute instances and a number of its own; the first two numbers are config and monitor.
const (
	capsPerGPU = 15 * capsPerGI
	capsPerGI  = 9
	capsFirst  = 3
)

func capsOf(minor, gi, ci int) []int {
	first := capsFirst + minor*capsPerGPU + gi*capsPerGI
	if ci < 0 {
		return []int{first}
	}
	return []int{first, first + 1 + ci}
}
