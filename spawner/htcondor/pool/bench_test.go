package pool

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"slipway/spawner"
	"slipway/spawner/htcondor/classad"
)

// BenchmarkExplain says what it costs to explain a job in a pool of 5,000 machines, each with eight GPUs.
func BenchmarkExplain(b *testing.B) {
	slots := slices.Repeat(captured(b, "idle"), 5000)
	d := Demand{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}, GPU: asked(b, "any,capability>=8.0,memory>=40G")}
	for b.Loop() {
		explanation(d, slots)
	}
}

// BenchmarkParse says what it costs to read the ads of 500 such machines.
func BenchmarkParse(b *testing.B) {
	one, err := os.ReadFile(filepath.Join("testdata", "ads", "idle.json"))
	if err != nil {
		b.Fatal(err)
	}
	inner := bytes.TrimSpace(one)
	inner = inner[1 : len(inner)-1]
	all := slices.Concat([]byte("["), bytes.Join(slices.Repeat([][]byte{inner}, 500), []byte(",")), []byte("]"))
	b.SetBytes(int64(len(all)))
	for b.Loop() {
		if _, err := classad.ParseAll(all); err != nil {
			b.Fatal(err)
		}
	}
}
