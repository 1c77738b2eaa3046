package kernels

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"testing"
)

func TestLogos(t *testing.T) {
	for _, name := range []string{LogoGPU, LogoCPU, LogoEnvironment, LogoStack} {
		all := Logos(name)
		if len(all) != 3 {
			t.Fatalf("%s has %d sizes", name, len(all))
		}
		if err := xml.Unmarshal(all[0].Data, new(struct{})); err != nil || all[0].File != "logo-svg.svg" || all[0].Type != "image/svg+xml" {
			t.Errorf("%s: %s, %s: %v", name, all[0].File, all[0].Type, err)
		}
		for i, size := range []int{32, 64} {
			l := all[i+1]
			if p, err := png.DecodeConfig(bytes.NewReader(l.Data)); err != nil || p.Width != size || p.Height != size || l.Type != "image/png" {
				t.Errorf("%s %s is %+v, %s: %v", name, l.Key, p, l.Type, err)
			}
		}
	}
	if Logos("other") != nil {
		t.Error("there is a picture of nothing")
	}
}

func TestKernelspecsNameTheirLogos(t *testing.T) {
	for path, want := range map[string]string{
		"/kernels/api/kernelspecs": "/kernels/kernelspecs/python/logo-svg.svg", "/a/api/kernelspecs/python": "/a/kernelspecs/python/logo-svg.svg", "/api/kernelspecs": "/kernelspecs/python/logo-svg.svg",
	} {
		m := modelOf(rootOf(path), Spec{Name: "python", Logos: Logos(LogoGPU), Metadata: map[string]any{"a": 1}})
		if got := m.Resources["logo-svg"]; got != want || len(m.Resources) != 3 || m.Spec.Metadata["a"] != 1 {
			t.Errorf("%s: %+v", path, m)
		}
	}
}
