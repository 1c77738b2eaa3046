package service

import (
	"testing"

	"slipway/images/manifest"
	"slipway/images/records"
)

func TestEnvironmentsForKernels(t *testing.T) {
	here := records.Environment{
		Content: records.Content{Digest: "sha256:a", Base: manifest.Base{Reference: "notebook:1"}}, Name: "ana",
		Tag: "v1",
	}
	moved, nameless, other := here, here, here
	moved.Moved, nameless.Name = true, ""
	other.Manifest.Architecture = "s390x"
	list := forKernels([]records.Environment{moved, nameless, here, other})
	if len(list) != 1 || list[0] != forKernel(here) || list[0].Base != "notebook:1" {
		t.Errorf("%+v", list)
	}
}
