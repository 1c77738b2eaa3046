package squashfs

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchInodes is the size of the reference's image.
const benchInodes = 190000

// large makes a tree like that of a Python distribution: directories of a few files each, one level in the other.
func large(w *Writer) *Node {
	r := rand.New(rand.NewPCG(1, 1))
	names := []string{"__init__.py", "core.py", "utils.py", "test_", "lib", "_config.json", "README.md", "index.js"}
	left := benchInodes
	var grow func(depth int) *Node
	grow = func(depth int) *Node {
		var entries []Entry
		for i := range 4 + r.IntN(12) {
			if left--; left < 0 {
				break
			}
			n := &Node{Kind: File, Mode: 0o644, MTime: 1700000000 + r.Uint32N(100)}
			n.Data = &Data{Start: 96 + r.Uint64N(1<<30), Size: r.Uint64N(1 << 17), Fragment: NoFragment}
			n.Data.Blocks = make([]uint32, n.Data.blocks(freshBlockSize))
			for j := range n.Data.Blocks {
				n.Data.Blocks[j] = 1 + r.Uint32N(100000)
			}
			entries = append(entries, Entry{fmt.Sprintf("%s%d", names[r.IntN(len(names))], i*37+r.IntN(30)), n})
		}
		for i := range 4 {
			if depth < 9 && left > 0 {
				left--
				entries = append(entries, Entry{fmt.Sprintf("package_%c%d", 'a'+r.IntN(26), i), grow(depth + 1)})
			}
		}
		return dir(entries...)
	}
	root := grow(0)
	var more []Entry
	for i := 0; left > 0; i++ {
		more = append(more, Entry{fmt.Sprintf("more%d", i), grow(3)})
	}
	if len(more) > 0 {
		root.Children = append(root.Children, Entry{"zz", dir(more...)})
	}
	return root
}

// largeBase is the tables of a large image behind a base whose data is not there: parsing reads none.
func largeBase(b testing.TB, compressor uint16) *shifted {
	b.Helper()
	const cut = 2 << 30
	var tail bytes.Buffer
	w, err := NewWriter(WriterConfig{Base: &Image{Super: Superblock{BlockSize: freshBlockSize, Compressor: compressor, InodeTable: cut}}, Out: &tail})
	must(b, err)
	defer w.Close()
	super, err := w.Finish(b.Context(), large(w))
	must(b, err)
	return &shifted{head: super.Bytes(), rest: tail.Bytes(), from: cut}
}

func (s *shifted) size() int64 { return s.from + int64(len(s.rest)) }

func BenchmarkParse(b *testing.B) {
	for name, compressor := range map[string]uint16{"gzip": compressorGzip, "zstd": compressorZstd} {
		b.Run(name, func(b *testing.B) {
			base := largeBase(b, compressor)
			var img *Image
			for b.Loop() {
				var err error
				img, err = Parse(base, base.size())
				must(b, err)
			}
			b.ReportMetric(float64(img.Memory())/1e6, "MB/tree")
			b.ReportMetric(float64(img.Super.Inodes), "inodes")
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB/heap")
			runtime.KeepAlive(img)
		})
	}
}

func BenchmarkFinish(b *testing.B) {
	for name, compressor := range map[string]uint16{"gzip": compressorGzip, "zstd": compressorZstd} {
		b.Run(name, func(b *testing.B) {
			base := largeBase(b, compressor)
			img, err := Parse(base, base.size())
			must(b, err)
			for b.Loop() {
				w, err := NewWriter(WriterConfig{Base: img, Out: io.Discard})
				must(b, err)
				_, err = w.Finish(b.Context(), img.Root)
				must(b, err)
				b.ReportMetric(float64(w.Written())/1e6, "MB")
				w.Close()
			}
		})
	}
}

// BenchmarkGraft puts 190 MB in 6,000 files, of which a third does not compress, behind a large base.
func BenchmarkGraft(b *testing.B) {
	base := largeBase(b, compressorZstd)
	r := rand.New(rand.NewPCG(1, 1))
	pool := append(benchText(r, 24<<20), noise(r, 8<<20)...)
	for b.Loop() {
		stages := map[string]time.Duration{}
		from, cpu := time.Now(), cpuTime()
		stage := func(name string) {
			stages[name+"-wall"], stages[name+"-cpu"] = time.Since(from), cpuTime()-cpu
			from, cpu = time.Now(), cpuTime()
		}
		img, err := Parse(base, base.size())
		must(b, err)
		stage("parse")
		w, err := NewWriter(WriterConfig{Base: img, Out: io.Discard})
		must(b, err)
		var entries []Entry
		for i := range 6000 {
			at, size := r.IntN(len(pool)-(4<<20)), 5000+r.IntN(20000)
			if i%60 == 0 {
				size = 1 << 20
			}
			entries = append(entries, Entry{fmt.Sprintf("%05d", i), file(put(b, w, pool[at:at+size]))})
		}
		must(b, w.Flush(b.Context()))
		b.ReportMetric(float64(w.Written())/1e6, "MB/data")
		stage("data")
		root := img.Root.With(append([]Entry{{"\x01added", dir(entries...)}}, img.Root.Children...))
		_, err = w.Finish(b.Context(), root)
		must(b, err)
		w.Close()
		stage("tables")
		for name, took := range stages {
			b.ReportMetric(took.Seconds(), name+"-s")
		}
	}
}

// BenchmarkPackers compresses what lies below SLIPWAY_BENCH_FILES, or Slipway's own sources, with one core and all
// compressors and levels that there are: the choice of Fast and of zstd rests on it.
func BenchmarkPackers(b *testing.B) {
	data := benchFiles(b, cmp.Or(os.Getenv("SLIPWAY_BENCH_FILES"), filepath.Join("..", "..")))
	dst := make([]byte, 0, 2*freshBlockSize)
	for name, compressor := range map[string]uint16{"gzip": compressorGzip, "zstd": compressorZstd} {
		for level, word := range []string{"fast", "better"} {
			b.Run(name+"-"+word, func(b *testing.B) {
				pack, err := newPacker(compressor, Level(level), freshBlockSize)
				must(b, err)
				packed, from := 0, cpuTime()
				for b.Loop() {
					packed = 0
					for block := range slices.Chunk(data, freshBlockSize) {
						n := len(block)
						if out := pack(dst, block); out != nil {
							n = len(out)
						}
						packed += n
					}
				}
				took := (cpuTime() - from).Seconds() / float64(b.N)
				b.ReportMetric(took, "cpu-s")
				b.ReportMetric(float64(len(data))/1e6/took, "MB/cpu-s")
				b.ReportMetric(float64(len(data))/1e6, "MB")
				b.ReportMetric(float64(packed)/1e6, "MB/packed")
			})
		}
	}
}

// benchFiles returns the contents of files of up to 60 MB each.
func benchFiles(b *testing.B, dir string) (all []byte) {
	must(b, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if info, err := e.Info(); err != nil || info.Size() > 60e6 {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	}))
	return all
}

// benchText is source-like text.
func benchText(r *rand.Rand, n int) []byte {
	var out bytes.Buffer
	for out.Len() < n {
		fmt.Fprintf(&out, "    def function_%d(self, value_%x):\n        return self.thing[%d] * %f\n", r.IntN(500), r.IntN(5000), r.IntN(100), r.Float64())
	}
	return out.Bytes()[:n]
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
