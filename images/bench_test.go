package images

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// bulk writes files of which about half compresses away, as programs and libraries do.
func bulk(seed uint64, files, size int) func(string) error {
	return func(root string) error {
		random := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, size)
		var all []error
		for i := range files {
			for j := range data {
				data[j] = byte(random.Uint32N(16)) * byte(j&1*7+1)
			}
			all = append(all, write(filepath.Join(root, fmt.Sprintf("usr/lib/bulk%d/%d/file%d", seed, i%50, i)), string(data)))
		}
		return errors.Join(all...)
	}
}

// BenchmarkFreeze packs a tree of 12,000 files and 120 MB, of which a sixth are the session's changes.
func BenchmarkFreeze(b *testing.B) {
	f := newFixture(b, bulk(1, 10000, 10<<10))
	f.change(bulk(2, 2000, 10<<10))
	l := newLibrary(b)
	b.Run("changed", func(b *testing.B) {
		for i := range b.N {
			must(b, os.WriteFile(filepath.Join(f.upper, "count"), fmt.Append(nil, i), 0o644))
			freeze(b, l, f, nil)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		freeze(b, l, f, nil)
		for b.Loop() {
			freeze(b, l, f, nil)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/2050, "us/entry")
	})
}
