package service

import (
	"testing"

	"slipway/images"
)

func TestEnvironmentsForKernels(t *testing.T) {
	here := images.Environment{Digest: "sha256:a", Name: "ana", Tag: "v1", Base: images.Base{Reference: "notebook:1"}}
	moved, nameless, other := here, here, here
	moved.Moved, nameless.Name = true, ""
	other.Manifest.Architecture = "s390x"
	list := forKernels([]images.Environment{moved, nameless, here, other})
	if len(list) != 1 || list[0] != forKernel(here) || list[0].Base != "notebook:1" {
		t.Errorf("%+v", list)
	}
}
