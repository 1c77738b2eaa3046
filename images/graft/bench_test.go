package graft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/internal/testenv"
)

// BenchmarkScan looks at 10,000 files.
func BenchmarkScan(b *testing.B) {
	upper := b.TempDir()
	for i := range 10_000 {
		must(b, write(filepath.Join(upper, fmt.Sprintf("usr/%d/%d", i/50, i)), ""))
	}
	strip := noRules(b)
	var files int64
	for b.Loop() {
		_, n, _, err := Scan(b.Context(), upper, strip)
		must(b, err)
		files += n
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(files), "µs/file")
}

// BenchmarkPause tells how long a source with 200,000 files stands still when nothing has changed since the running
// pass; also by the processor's time, which is that of a quiet machine where there is one core, and by the time of a
// scan just before.
func BenchmarkPause(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Mksquashfs)
	const files = 200_000
	dir := b.TempDir()
	upper := filepath.Join(dir, "upper")
	for i := range files {
		must(b, write(filepath.Join(upper, fmt.Sprintf("usr/%d/%d/%d", i/10_000, i/50, i)), "x"))
	}
	base := largeBase(b, filepath.Join(dir, "base"))
	for _, cores := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("cores=%d", cores), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			var paused, scanned time.Duration
			var worked float64
			strip := noRules(b)
			for b.Loop() {
				start := time.Now()
				_, _, _, err := Scan(b.Context(), upper, strip)
				must(b, err)
				scanned += time.Since(start)
				r, err := Graft(b.Context(), Config{
					Base: base, Upper: upper, Strip: strip, Out: io.Discard,
					Pause:  func(context.Context) error { worked -= cpu(unix.RUSAGE_SELF); return nil },
					Resume: func(context.Context) error { worked += cpu(unix.RUSAGE_SELF); return nil },
				})
				must(b, err)
				paused += r.Paused
			}
			b.ReportMetric(worked*1e6/float64(b.N)/files, "CPU-µs/file-paused")
			b.ReportMetric(float64(paused)/float64(scanned), "pause/scan")
			b.ReportMetric(float64(paused.Microseconds())/float64(b.N)/files, "µs/file-paused")
		})
	}
}

// BenchmarkGraft grafts up to 190 MB in 6,000 files of this host's onto a base of 190,000 inodes, and lets mksquashfs
// pack the same directory at zstd's level 1; once with the files in the page cache, once without.
func BenchmarkGraft(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Mksquashfs)
	dir := b.TempDir()
	base, upper := largeBase(b, filepath.Join(dir, "base")), filepath.Join(dir, "upper")
	files, bytes := harvest(b, upper)
	for name, prepare := range map[string]func(){"warm": func() {}, "cold": func() { forget(b, upper) }} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(files), "files")
			b.ReportMetric(float64(bytes)/1e6, "MB")
			race(b, base, upper, dir, prepare)
		})
	}
}

func race(b *testing.B, base *squashfs.Image, upper, dir string, prepare func()) {
	var ours, theirs used
	var paused, tables time.Duration
	strip := noRules(b)
	for b.Loop() {
		prepare()
		theirs.measure(unix.RUSAGE_CHILDREN, func() {
			must(b, run("mksquashfs", upper, filepath.Join(dir, "theirs"), "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level", "1"))
		})
		prepare()
		out, err := os.Create(filepath.Join(dir, "ours"))
		must(b, err)
		ours.measure(unix.RUSAGE_SELF, func() {
			cfg := Config{Base: base, Upper: upper, Strip: strip, Out: out, Pause: func(context.Context) error { return nil }}
			var last time.Time
			cfg.Progress = func(s Stage, _, _ int64) { last = time.Now() }
			r, err := Graft(b.Context(), cfg)
			must(b, err)
			paused, tables = paused+r.Paused, tables+time.Since(last)
		})
		must(b, out.Close())
	}
	n := float64(b.N)
	for unit, v := range map[string]float64{
		"s": ours.wall / n, "cpu-s": ours.cpu / n, "paused-s": paused.Seconds() / n, "tables-s": tables.Seconds() / n,
		"mksquashfs-s": theirs.wall / n, "mksquashfs-cpu-s": theirs.cpu / n, "x-mksquashfs": ours.wall / theirs.wall,
	} {
		b.ReportMetric(v, unit)
	}
}

// used is what something took, in seconds.
type used struct{ wall, cpu float64 }

func (u *used) measure(who int, fn func()) {
	before, start := cpu(who), time.Now()
	fn()
	u.wall, u.cpu = u.wall+time.Since(start).Seconds(), u.cpu+cpu(who)-before
}

func cpu(who int) float64 {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// forget drops a tree's files from the page cache.
func forget(b *testing.B, root string) {
	b.Helper()
	must(b, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	}))
}

// largeBase writes an image of 190,000 inodes and parses it.
func largeBase(b *testing.B, path string) *squashfs.Image {
	b.Helper()
	f, err := os.Create(path)
	must(b, err)
	b.Cleanup(func() { f.Close() })
	w, err := squashfs.NewWriter(squashfs.WriterConfig{Out: io.NewOffsetWriter(f, squashfs.SuperblockSize)})
	must(b, err)
	defer w.Close()
	lib := make([]squashfs.Entry, 0, 9000)
	for i := range 9000 {
		list := make([]squashfs.Entry, 0, 20)
		for j := range 20 {
			data, err := w.Put(b.Context(), memory(fmt.Sprintf("%d of %d", j, i)), int64(len(fmt.Sprintf("%d of %d", j, i))), nil)
			must(b, err)
			list = append(list, squashfs.Entry{Name: fmt.Sprintf("module_%02d.py", j), Node: &squashfs.Node{Kind: squashfs.File, Mode: 0o644, MTime: uint32(1e9 + i), Data: data}})
		}
		lib = append(lib, squashfs.Entry{Name: fmt.Sprintf("package_%04d", i), Node: dirOf(list...)})
	}
	super, err := w.Finish(b.Context(), dirOf(sub("etc"), sub("usr", sub("lib", lib...))))
	must(b, err)
	head := super.Bytes()
	_, err = f.WriteAt(head[:], 0)
	must(b, err)
	st, err := f.Stat()
	must(b, err)
	image, err := squashfs.Parse(f, st.Size())
	must(b, err)
	return image
}

// harvest copies files of this host until there are enough.
func harvest(b *testing.B, upper string) (files int, bytes int64) {
	b.Helper()
	must(b, filepath.WalkDir("/usr/lib", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if files == 6000 || bytes > 190e6 {
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil || info.Size() > 8<<20 || info.Size() == 0 {
			return err
		}
		data, err := os.ReadFile(path)
		files, bytes = files+1, bytes+info.Size()
		return errors.Join(err, write(filepath.Join(upper, path), string(data)))
	}))
	must(b, exec.Command("sync").Run())
	return files, bytes
}
