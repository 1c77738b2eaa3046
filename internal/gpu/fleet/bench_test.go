package fleet_test

import (
	"fmt"
	"testing"

	"slipway/internal/gpu"
)

// full is 8 GPUs, each cut into 7 instances that are all held.
func full(b *testing.B) *site {
	b.Helper()
	models := make([]string, 8)
	for i := range models {
		models[i] = "H200/mig"
	}
	s := newSite(b, models, mig(), nil)
	for i := range 56 {
		s.have(fmt.Sprint("w", i), "1g.18gb")
	}
	return s
}

func BenchmarkRefresh(b *testing.B) {
	s := full(b)
	for b.Loop() {
		if err := s.fleet.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInventory(b *testing.B) {
	s := full(b)
	for b.Loop() {
		if n := len(s.fleet.Inventory().GPUs); n != 8 {
			b.Fatal(n)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	s := full(b)
	var held []gpu.Slice
	for _, l := range s.held()[1:] {
		held = append(held, l.Slice)
	}
	r := gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}
	for b.Loop() {
		if _, lacks := s.fleet.Place(r, held); lacks != "" {
			b.Fatal(lacks)
		}
	}
}
