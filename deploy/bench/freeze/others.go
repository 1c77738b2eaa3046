package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	memory "github.com/google/go-containerregistry/pkg/registry"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/sif"
	"slipway/images/transfer"
)

// copies compares the copy of the base into a SIF with cp, where the file system does not share it.
func (b *bench) copies(ctx context.Context) error {
	p, err := b.library.Parts(b.last.Digest)
	if err != nil {
		return err
	}
	base, err := os.Open(b.path("environments", "bases", strings.TrimPrefix(p.Document.Base.Digest, "sha256:")+".sqfs"))
	if err != nil {
		return err
	}
	defer base.Close()
	for range b.rounds {
		theirs, err := measure(func() error { return call(ctx, "cp", "--reflink=never", base.Name(), b.path("copy")) })
		if err := errors.Join(err, os.Remove(b.path("copy"))); err != nil {
			return err
		}
		var shared int64
		ours, err := measure(func() error { shared, err = b.copyBase(ctx, base, p.Document.Base.Cut); return err })
		if err := errors.Join(err, os.Remove(b.path("copy"))); err != nil {
			return err
		}
		speed := float64(p.Document.Base.Size) / mb
		b.add("bytes of the base that are shared: %", 100*float64(shared)/float64(p.Document.Base.Cut))
		b.add("the base into the SIF: MB/s", speed/ours.wall)
		b.add("cp: MB/s", speed/theirs.wall)
		b.add("the base into the SIF / cp, speed", theirs.wall/ours.wall)
	}
	b.want("the base into the SIF / cp, speed", target{least: 0.8})
	return nil
}

// sharing finds out whether the file system shares blocks between files.
func (b *bench) sharing(ctx context.Context) (bool, error) {
	if err := os.WriteFile(b.path("copied"), make([]byte, sif.Block), 0o600); err != nil {
		return false, err
	}
	f, err := os.Open(b.path("copied"))
	if err != nil {
		return false, err
	}
	defer f.Close()
	shared, err := b.copyBase(ctx, f, sif.Block)
	return shared > 0, errors.Join(err, os.Remove(f.Name()), os.Remove(b.path("copy")))
}

func (b *bench) copyBase(ctx context.Context, base *os.File, cut int64) (shared int64, err error) {
	dst, err := os.Create(b.path("copy"))
	if err != nil {
		return 0, err
	}
	shared, err = sif.CopyBase(ctx, dst, sif.PartitionOffset, base, cut, nil)
	return shared, errors.Join(err, dst.Close())
}

// starts compares the first start of a container from the frozen image with that from one whose squashfs was made in
// one piece.
func (b *bench) starts(ctx context.Context) error {
	grafted, err := b.library.Ready(ctx, b.last.Digest)
	if err != nil {
		return err
	}
	ordinary := b.path("ordinary.sif")
	note("packing an ordinary SIF")
	if err := b.ordinary(ctx, grafted, ordinary); err != nil {
		return err
	}
	for round := range 3*b.rounds + 1 {
		took := map[string]float64{}
		for name, path := range map[string]string{"the grafted": grafted, "an ordinary": ordinary} {
			if err := forget(path); err != nil {
				return err
			}
			u, err := measure(func() error {
				return call(ctx, b.apptainer, "--quiet", "exec", "--userns", "--contain", "--no-home", path, "true")
			})
			if err != nil {
				return err
			}
			took[name] = 1e3 * u.wall
			if round > 0 {
				b.add("first apptainer exec of "+name+" SIF: ms", 1e3*u.wall)
				b.add("apptainer exec of "+name+" SIF: CPU ms", 1e3*u.cpu)
			}
		}
		if round > 0 {
			b.add(later, took["the grafted"]-took["an ordinary"])
		}
	}
	b.want(later, target{most: 20})
	return os.Remove(ordinary)
}

// later names how much longer the first start of a grafted image takes.
const later = "grafted less ordinary, one after the other: ms"

// ordinary packs what a SIF holds anew, in one piece.
func (b *bench) ordinary(ctx context.Context, from, to string) (err error) {
	point, packed := b.path("mounted"), b.path("packed")
	if err := os.MkdirAll(point, 0o700); err != nil {
		return err
	}
	if err := call(ctx, "mount", "-t", "squashfs", "-o", "loop,ro,offset="+strconv.Itoa(sif.PartitionOffset), from, point); err != nil {
		return err
	}
	err = call(
		ctx, "mksquashfs", point, packed, "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level",
		"1", "-mem", "1G",
	)
	if err := errors.Join(err, call(ctx, "umount", point)); err != nil {
		return err
	}
	src, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer os.Remove(packed)
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = sif.CopyBase(ctx, dst, sif.PartitionOffset, src, st.Size(), nil)
	if err == nil {
		err = sif.Finish(dst, "amd64", st.Size(), []byte("{}"))
	}
	return errors.Join(err, dst.Close())
}

// pushes sends an environment to a registry in memory, then others over the same base.
func (b *bench) pushes(ctx context.Context) error {
	note("pushing")
	server := httptest.NewServer(memory.New(memory.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	defer server.Close()
	client := transfer.New(transfer.Config{
		Plain: func(string) bool { return true }, Transport: &http.Transport{}, Logger: slog.New(slog.DiscardHandler),
	})
	ref := transfer.Reference{Host: strings.TrimPrefix(server.URL, "http://"), Repository: "bench/env"}
	for round := range min(b.rounds, 2) + 1 { // on ext4 each environment takes as much as its base
		ref.Tag = strconv.Itoa(round)
		sent, u, tail, err := b.push(ctx, client, ref, round)
		if err != nil {
			return err
		}
		name := "push of the second freeze and later ones"
		if round == 0 {
			name = "push of the first freeze"
		}
		b.spent(name+", with the registry", u)
		b.add(name+": MB", float64(sent)/mb)
		b.add(name+" / the tail, bytes", float64(sent)/float64(tail))
	}
	b.want("push of the second freeze and later ones / the tail, bytes", target{most: 1.05})
	return nil
}

// push freezes after a small change, and sends that.
func (b *bench) push(
	ctx context.Context, client *transfer.Client, to transfer.Reference, round int,
) (sent int64, u used, tail int64, err error) {
	if err := errors.Join(b.touch(round), b.freeze(ctx)); err != nil {
		return 0, u, 0, err
	}
	p, err := b.library.Parts(b.last.Digest)
	if err != nil {
		return 0, u, 0, err
	}
	e := transfer.Environment{
		Document: p.Encoded,
		Blob:     func(ctx context.Context, d oci.Descriptor) (blob.Blob, error) { return p.Blob(ctx, d.Digest.String()) },
	}
	u, err = measure(func() error {
		done, err := client.Push(ctx, to, e, func(transfer.Progress) {})
		sent = done.Sent
		return err
	})
	return sent, u, p.Document.Tail.Size, err
}

// build is the usual way: the container is committed and Apptainer asks the engine for the image. The engine's work
// counts.
func (b *bench) build(ctx context.Context) error {
	const image = "slipway/bench-freeze:committed"
	note("apptainer build, which takes minutes")
	defer exec.Command("docker", "image", "rm", image).Run()
	dirs := []string{b.path("tmp"), b.path("cache")}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	// Nothing that was measured is needed any more, and the build writes many times the image.
	if err := errors.Join(os.RemoveAll(b.path("environments", "blobs")), call(ctx, "fstrim", b.dir)); err != nil {
		return err
	}
	// The engine cannot save such names: they mean something in its layers.
	if err := os.RemoveAll(filepath.Join(b.box.merged, "opt", "odd", ".wh.odd")); err != nil {
		return err
	}
	committed, err := b.withEngine(func() error { return call(ctx, "docker", "commit", b.box.id, image) })
	if err != nil {
		return err
	}
	b.spent("docker commit, with the engine", committed)
	built, err := b.withEngine(func() error {
		return call(
			ctx, "env", "APPTAINER_TMPDIR="+dirs[0], "APPTAINER_CACHEDIR="+dirs[1], b.apptainer, "build", "--force",
			b.path("built.sif"), "docker-daemon:"+image,
		)
	})
	if err != nil {
		return err
	}
	b.spent("apptainer build from docker-daemon, with the engine", built)
	if st, err := os.Stat(b.path("built.sif")); err == nil {
		b.add("its SIF: MB", float64(st.Size())/mb)
	}
	b.add("apptainer build / freeze, CPU", built.cpu/b.median("freeze to a complete SIF: CPU s"))
	b.add("apptainer build / freeze, wall", built.wall/b.median("freeze to a complete SIF: s"))
	b.want("apptainer build / freeze, CPU", target{least: 200})
	return os.Remove(b.path("built.sif"))
}

// withEngine measures work together with the engine's.
func (b *bench) withEngine(work func() error) (used, error) {
	before, err := engineSpent()
	if err != nil {
		return used{}, err
	}
	u, err := measure(work)
	if err != nil {
		return u, err
	}
	after, err := engineSpent()
	u.cpu += after - before
	return u, err
}

// engineSpent returns the CPU seconds of the engine's process and of its children that have ended.
func engineSpent() (float64, error) {
	pid, err := os.ReadFile("/var/run/docker.pid")
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	words, ticks := strings.Fields(rest), 0
	if len(words) < 15 {
		return 0, fmt.Errorf("the engine's stat has %d words", len(words))
	}
	for _, word := range words[11:15] { // utime, stime and those of children
		n, err := strconv.Atoi(word)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / 100, nil
}
