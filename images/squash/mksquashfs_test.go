package squash

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProgress(t *testing.T) {
	for line, want := range map[string]float64{
		"[=====|   ] 120/240  50%": 50, "[====|] 241/241 100%": 100, "[|] 0/7   0%": 0,
		"": -1, "Creating 4.0 filesystem": -1, "[=] 3/0 100%": -1, "[=] 9/3 300%": -1, "x [=] 1/2 50%": -1, "[=] 1/99999999999999999999 0%": -1,
	} {
		got, ok := parseProgress(line)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("parseProgress(%q) = %v, %v; want %v", line, got, ok, want)
		}
	}
}

func FuzzParseProgress(f *testing.F) {
	f.Add("[=====|   ] 120/240  50%")
	f.Fuzz(func(t *testing.T, line string) {
		if p, ok := parseProgress(line); ok && (math.IsNaN(p) || p < 0 || p > 100) {
			t.Errorf("parseProgress(%q) = %v", line, p)
		}
	})
}

func TestProgressWriterReadsAcrossWrites(t *testing.T) {
	var got []float64
	w := &progressWriter{tell: func(p float64) { got = append(got, p) }}
	for _, part := range []string{"Parallel mksquash", "fs\n\r[=|", "] 1/4  2", "5%\r[==|] 2/4 50%\r", strings.Repeat("x", 5000), "\r[===|] 4/4 100%\n"} {
		_, err := w.Write([]byte(part))
		must(t, err)
	}
	if d := cmp.Diff([]float64{25, 50, 100}, got); d != "" {
		t.Error(d)
	}
}
