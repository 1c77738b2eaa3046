package control

import (
	"testing"

	"slipway/internal/errs"
)

func FuzzKernelStatus(f *testing.F) {
	f.Add([]byte(`{"state":"busy","quiet":1.5,"connections":2,"restarts":1}`))
	f.Add([]byte(`{"state":"idle","quiet":-1e308,"connections":-2,"restarts":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseKernelStatus(b)
		if err != nil && !errs.Is(err, errs.Unavailable) {
			t.Errorf("%q: %v", b, err)
		}
		if err == nil && (s.State == "" || s.Quiet < 0 || s.Quiet > maxSeconds || s.Connections < 0 || s.Connections > maxCount || s.Restarts < 0 || s.Restarts > maxCount) {
			t.Errorf("%q: %+v", b, s)
		}
	})
}
