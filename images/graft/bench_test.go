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
	"testing"
	"time"

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

// BenchmarkGraft grafts about 190 MB in 6,000 files of this host's onto a base of 190,000 inodes, and lets mksquashfs pack
// the same directory at zstd's level 1.
func BenchmarkGraft(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Mksquashfs)
	dir := b.TempDir()
	base, upper := largeBase(b, filepath.Join(dir, "base")), filepath.Join(dir, "upper")
	files, bytes := harvest(b, upper)
	strip := noRules(b)
	var ours, theirs, paused, reading, tables time.Duration
	for b.Loop() {
		start := time.Now()
		must(b, run("mksquashfs", upper, filepath.Join(dir, "theirs"), "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level", "1"))
		theirs += time.Since(start)
		out, err := os.Create(filepath.Join(dir, "ours"))
		must(b, err)
		start = time.Now()
		at := map[Stage]time.Time{}
		r, err := Graft(b.Context(), Config{
			Base: base, Upper: upper, Strip: strip, Out: out, Pause: func(context.Context) error { return nil },
			Progress: func(s Stage, files, _ int64) {
				if _, begun := at[s]; !begun {
					at[s] = time.Now()
				}
			},
		})
		must(b, err, out.Close())
		ours, paused, reading, tables = ours+time.Since(start), paused+r.Paused, reading+at[Paused].Sub(at[Reading]), tables+time.Since(at[Tables])
	}
	n := float64(b.N)
	b.ReportMetric(float64(files), "files")
	b.ReportMetric(float64(bytes)/1e6, "MB")
	for unit, d := range map[string]time.Duration{"graft-s": ours, "reading-s": reading, "paused-s": paused, "tables-s": tables, "mksquashfs-s": theirs} {
		b.ReportMetric(d.Seconds()/n, unit)
	}
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x-mksquashfs")
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
