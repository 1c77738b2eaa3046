package sif

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func baseFile(t testing.TB, dir string, data []byte) *os.File {
	t.Helper()
	path := filepath.Join(dir, "base")
	must(t, os.WriteFile(path, data, 0o644))
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func target(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "target"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// loop mounts a new file system of that type.
func loop(t testing.TB, size int64, mkfs ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Loop)
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		t.Skipf("%s is missing", mkfs[0])
	}
	disk, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	must(t, os.WriteFile(disk, nil, 0o600))
	must(t, os.Truncate(disk, size))
	run(t, append(mkfs, disk)...)
	run(t, "mount", "-o", "loop", disk, dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}

func run(t testing.TB, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
}

func checkCopy(t *testing.T, dst, base *os.File, offset, length int64) (shared int64) {
	t.Helper()
	var told int64
	shared, err := CopyBase(t.Context(), dst, offset, base, length, func(n int64) { told += n })
	must(t, err)
	want, got := make([]byte, length), make([]byte, length)
	_, err = base.ReadAt(want, 0)
	must(t, err)
	_, err = dst.ReadAt(got, offset)
	must(t, err)
	info, err := dst.Stat()
	must(t, err)
	if !bytes.Equal(got, want) || told != length || info.Size() != offset+length {
		t.Errorf("%d bytes at %d: equal %v, %d told, the file ends at %d", length, offset, bytes.Equal(got, want), told, info.Size())
	}
	return shared
}

func TestCopyBase(t *testing.T) {
	base := baseFile(t, t.TempDir(), noise(3*bufferSize+777))
	for _, length := range []int64{0, 1, Block, 2*bufferSize + 5, 3*bufferSize + 777} {
		for _, offset := range []int64{0, 1, PartitionOffset} {
			if length != 0 {
				checkCopy(t, target(t, t.TempDir()), base, offset, length)
			}
		}
	}
}

func TestCopyBaseSharesWhereItCan(t *testing.T) {
	dir := loop(t, 320<<20, "mkfs.xfs", "-q", "-m", "reflink=1")
	base := baseFile(t, dir, noise(5*Block+99))
	if shared := checkCopy(t, target(t, dir), base, PartitionOffset, 5*Block+99); shared != 5*Block {
		t.Errorf("%d bytes shared", shared)
	}
	if shared := checkCopy(t, target(t, dir), base, PartitionOffset, 4*Block+7); shared != 4*Block {
		t.Errorf("%d bytes of a part shared", shared)
	}
	if shared := checkCopy(t, target(t, dir), base, 100, 5*Block); shared != 0 {
		t.Errorf("%d bytes shared at an odd offset", shared)
	}
	elsewhere := baseFile(t, t.TempDir(), noise(3*Block))
	if shared := checkCopy(t, target(t, dir), elsewhere, PartitionOffset, 3*Block); shared != 0 {
		t.Errorf("%d bytes shared between file systems", shared)
	}
}

func TestCopyBaseOnAFullDisk(t *testing.T) {
	dir := loop(t, 32<<20, "mkfs.ext4", "-q", "-O", "^has_journal")
	const size = 20 << 20
	base := baseFile(t, dir, noise(size))
	for name, copyTo := range map[string]func(dst *os.File) error{
		"kernel":  func(dst *os.File) error { return (&copier{dst: dst, base: base, length: size}).inKernel(t.Context()) },
		"writing": func(dst *os.File) error { return (&copier{dst: dst, base: base, length: size}).readWrite(t.Context()) },
		"all": func(dst *os.File) error {
			_, err := CopyBase(t.Context(), dst, PartitionOffset, base, size, nil)
			return err
		},
	} {
		if err := noSpace(copyTo(target(t, dir))); !errs.Is(err, errs.NoSpace) || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCopyBaseFaults(t *testing.T) {
	base := baseFile(t, t.TempDir(), noise(2*Block))
	if _, err := CopyBase(t.Context(), target(t, t.TempDir()), PartitionOffset, base, 3*Block, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short base: %v", err)
	}
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	for _, offset := range []int64{PartitionOffset, 1} {
		if _, err := CopyBase(ctx, target(t, t.TempDir()), offset, base, 2*Block, nil); !errors.Is(err, stop) {
			t.Errorf("canceled: %v", err)
		}
	}
	readOnly := baseFile(t, t.TempDir(), nil)
	if _, err := CopyBase(t.Context(), readOnly, 0, base, 2*Block, nil); err == nil || errs.Is(err, errs.NoSpace) {
		t.Errorf("into a file that is open for reading: %v", err)
	}
}

// benchSize is that of a base, near enough.
const benchSize = 700 << 20

// benchDir is where benchmarks write: SLIPWAY_BENCH_DIR, on the file system that is to be measured.
func benchDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(os.Getenv("SLIPWAY_BENCH_DIR"), "sif")
	must(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func BenchmarkCopyBase(b *testing.B) {
	dir := benchDir(b)
	base := baseFile(b, dir, noise(benchSize))
	unix.Sync() // a clone waits until its source is on the disk
	out := filepath.Join(dir, "target")
	for name, copyOnce := range map[string]func() error{
		"cp": func() error { return exec.Command("cp", "--reflink=auto", base.Name(), out).Run() },
		"CopyBase": func() error {
			f, err := os.Create(out)
			if err != nil {
				return err
			}
			_, err = CopyBase(b.Context(), f, PartitionOffset, base, benchSize, nil)
			return errors.Join(err, f.Close())
		},
		"readWrite": func() error {
			f, err := os.Create(out)
			if err != nil {
				return err
			}
			c := &copier{dst: f, base: base, dstOff: PartitionOffset, length: benchSize}
			return errors.Join(c.readWrite(b.Context()), f.Close())
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				must(b, copyOnce())
				b.StopTimer()
				must(b, os.Remove(out))
				unix.Sync()
				b.StartTimer()
			}
		})
	}
}

func BenchmarkFinishAndSign(b *testing.B) {
	k := keys(b)
	f, err := os.Create(filepath.Join(benchDir(b), "x.sif"))
	must(b, err)
	defer f.Close()
	_, err = f.WriteAt(noise(benchSize), PartitionOffset)
	must(b, err)
	must(b, f.Sync())
	b.Run("finish", func(b *testing.B) {
		for b.Loop() {
			must(b, Finish(f, "amd64", benchSize, []byte(about)))
		}
	})
	b.Run("sign", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			must(b, Repair(f))
			must(b, Sign(b.Context(), f, k.Sign, nil))
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(benchSize)
		for b.Loop() {
			_, err := image(b, f).Verify(b.Context(), k.Unseal, nil)
			must(b, err)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	f := signedFile(b, noise(Block), keys(b))
	for b.Loop() {
		image(b, f)
	}
}
