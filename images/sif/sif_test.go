package sif

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sylabs "github.com/sylabs/sif/v2/pkg/sif"

	"slipway/images/signing"
	"slipway/internal/errs"
)

const about = `{"format":1,"architecture":"amd64"}`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keys(t testing.TB) *signing.Keys {
	t.Helper()
	k, err := signing.New(signing.Config{Dir: filepath.Join(t.TempDir(), "keys"), Site: "cern", Now: noon, Log: discard()})
	must(t, err)
	return k
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// noise is a partition that no test mounts.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// unfinished is a file that holds a partition in its place.
func unfinished(t testing.TB, partition []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.sif"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.WriteAt(partition, PartitionOffset)
	must(t, err)
	return f
}

func finished(t testing.TB, partition []byte) *os.File {
	t.Helper()
	f := unfinished(t, partition)
	must(t, Finish(f, "amd64", int64(len(partition)), []byte(about)))
	return f
}

func signedFile(t testing.TB, partition []byte, k *signing.Keys) *os.File {
	t.Helper()
	f := finished(t, partition)
	must(t, Sign(t.Context(), f, k.Sign, nil))
	return f
}

func content(t testing.TB, f *os.File) []byte {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return b
}

func image(t testing.TB, f *os.File) *Image {
	t.Helper()
	info, err := f.Stat()
	must(t, err)
	i, err := Open(f, info.Size())
	must(t, err)
	return i
}

func openBytes(b []byte) (*Image, error) { return Open(bytes.NewReader(b), int64(len(b))) }

// A head that is another one makes every environment's file another one: registries would get all of them again.
func TestHeadIsTheSameForever(t *testing.T) {
	for arch, want := range map[string]string{
		"amd64":   "2648ef68159b866f",
		"arm64":   "ed879f1654b94c2d",
		"ppc64le": "084dadeb87ac4fd3",
	} {
		head, err := Head(arch, 4096*1000, 12345)
		must(t, err)
		sum := sha256.Sum256(head)
		if got := hex.EncodeToString(sum[:8]); got != want || len(head) != PartitionOffset {
			t.Errorf("%s: %d bytes, %s", arch, len(head), got)
		}
	}
}

func TestFinishGivesTheFileThatTheLibraryWrites(t *testing.T) {
	partition := noise(3 * Block)
	f := finished(t, partition)
	want := sylabs.NewBuffer(nil)
	root, err := sylabs.NewDescriptorInput(sylabs.DataPartition, bytes.NewReader(partition), sylabs.OptPartitionMetadata(sylabs.FsSquash, sylabs.PartPrimSys, "amd64"))
	must(t, err)
	object, err := sylabs.NewDescriptorInput(sylabs.DataGenericJSON, strings.NewReader(about), sylabs.OptObjectName("slipway.json"), sylabs.OptObjectAlignment(4096))
	must(t, err)
	_, err = sylabs.CreateContainer(want, sylabs.OptCreateDeterministic(), sylabs.OptCreateWithLaunchScript("#!/usr/bin/env run-singularity\n"),
		sylabs.OptCreateWithDescriptors(root, object))
	must(t, err)
	if !bytes.Equal(content(t, f), want.Bytes()) {
		t.Error("it is another file")
	}
	i := image(t, f)
	got, err := i.ReadManifest()
	must(t, err)
	back, err := io.ReadAll(i.Root())
	must(t, err)
	if string(got) != about || !bytes.Equal(back, partition) || i.Arch != "amd64" || len(i.Signatures) != 0 || i.Manifest.Offset%Block != 0 {
		t.Errorf("read back: %+v, manifest %s", i, got)
	}
}

func TestFinishCanBeRepeated(t *testing.T) {
	f := finished(t, noise(Block))
	want := content(t, f)
	_, err := f.WriteAt([]byte("left over"), int64(len(want)))
	must(t, err)
	must(t, Finish(f, "amd64", Block, []byte(about)))
	if !bytes.Equal(content(t, f), want) {
		t.Error("the second file is another one")
	}
}

func TestFinishRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		arch      string
		partition int64
		manifest  int
	}{
		"architecture":      {"pdp11", Block, 1},
		"odd partition":     {"amd64", Block + 1, 1},
		"no partition":      {"amd64", 0, 1},
		"no manifest":       {"amd64", Block, 0},
		"endless manifest":  {"amd64", Block, maxManifest + 1},
		"endless partition": {"amd64", 1 << 62, 1},
	} {
		f := unfinished(t, noise(Block))
		before := content(t, f)
		if err := Finish(f, c.arch, c.partition, make([]byte, c.manifest)); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(content(t, f), before) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if err := Finish(unfinished(t, noise(Block)), "amd64", 2*Block, []byte(about)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a partition that is not all there: %v", err)
	}
}

type object struct {
	kind sylabs.DataType
	opts []sylabs.DescriptorInputOpt
}

func partition(fs sylabs.FSType, kind sylabs.PartType) object {
	return object{sylabs.DataPartition, []sylabs.DescriptorInputOpt{sylabs.OptPartitionMetadata(fs, kind, "amd64")}}
}

// foreign is a SIF with such objects, of a block each.
func foreign(t *testing.T, objects ...object) []byte {
	t.Helper()
	var list []sylabs.DescriptorInput
	for _, o := range objects {
		d, err := sylabs.NewDescriptorInput(o.kind, bytes.NewReader(noise(Block)), o.opts...)
		must(t, err)
		list = append(list, d)
	}
	b := sylabs.NewBuffer(nil)
	_, err := sylabs.CreateContainer(b, sylabs.OptCreateDeterministic(), sylabs.OptCreateWithLaunchScript(launchScript), sylabs.OptCreateWithDescriptors(list...))
	must(t, err)
	return b.Bytes()
}

func TestOpenRefuses(t *testing.T) {
	root := partition(sylabs.FsSquash, sylabs.PartPrimSys)
	manifest := object{sylabs.DataGenericJSON, []sylabs.DescriptorInputOpt{sylabs.OptObjectName(ManifestName)}}
	overlay := partition(sylabs.FsSquash, sylabs.PartOverlay)
	good := content(t, finished(t, noise(Block)))
	patched := func(at int, value uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[at:], value)
		return b
	}
	const first, second = descriptorsAt, descriptorsAt + descriptorSize
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"overlay":                  {foreign(t, root, overlay, manifest), "overlay"},
		"overlay behind":           {foreign(t, root, manifest, overlay), "overlay"},
		"overlay alone":            {foreign(t, overlay, manifest), "overlay"},
		"two partitions":           {foreign(t, root, partition(sylabs.FsSquash, sylabs.PartData), manifest), "more than one partition"},
		"ext3":                     {foreign(t, partition(sylabs.FsExt3, sylabs.PartPrimSys), manifest), "Ext3"},
		"data":                     {foreign(t, partition(sylabs.FsSquash, sylabs.PartData), manifest), "Data"},
		"encrypted":                {foreign(t, partition(sylabs.FsEncryptedSquashfs, sylabs.PartPrimSys), manifest), "Encrypted"},
		"no partition":             {foreign(t, manifest), "JSON.Generic"},
		"no manifest":              {foreign(t, root), "no manifest"},
		"another manifest":         {foreign(t, root, object{sylabs.DataGenericJSON, nil}), "JSON.Generic"},
		"two manifests":            {foreign(t, root, manifest, manifest), "JSON.Generic"},
		"a definition file":        {foreign(t, object{sylabs.DataDeffile, nil}, root, manifest), "Def.FILE"},
		"variables behind":         {foreign(t, root, manifest, object{sylabs.DataEnvVar, nil}), "Env.Vars"},
		"nothing":                  {nil, "ends within"},
		"half a head":              {good[:PartitionOffset/2], "ends within"},
		"a script":                 {bytes.Repeat([]byte("#!/bin/sh\n"), 4000), "does not begin"},
		"half a partition":         {good[:PartitionOffset+100], "partition of 4096 bytes"},
		"half a manifest":          {good[:len(good)-1], "manifest"},
		"a byte behind":            {append(bytes.Clone(good), 0), "no object"},
		"descriptors without end":  {patched(geometryAt, 1<<62), "descriptors"},
		"descriptors below zero":   {patched(geometryAt, 1<<63), "descriptors"},
		"descriptors elsewhere":    {patched(geometryAt+8, 1<<40), "descriptors"},
		"partition out of file":    {patched(first+25, 1<<40), "out of place"},
		"partition below zero":     {patched(first+25, 1<<63), "out of place"},
		"partition elsewhere":      {patched(first+17, PartitionOffset+1), "out of place"},
		"partition over the end":   {patched(first+17, 1<<63-1), "out of place"},
		"manifest out of file":     {patched(second+25, 1<<40), "out of place"},
		"manifest below zero":      {patched(second+25, 1<<63), "out of place"},
		"manifest over partition":  {patched(second+17, PartitionOffset), "out of place"},
		"manifest empty":           {patched(second+25, 0), "out of place"},
		"something in the padding": {patched(200, 1), "head"},
		"another creation time":    {patched(64, 1), "head"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openBytes(c.file)
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q: %v", c.says, err)
			}
		})
	}
}

func TestSignAndVerify(t *testing.T) {
	k := keys(t)
	f := signedFile(t, noise(5*Block), k)
	i := image(t, f)
	var read int64
	by, err := i.Verify(t.Context(), k.Unseal, func(n int64) { read += n })
	must(t, err)
	own, err := k.List()
	must(t, err)
	if len(by) != 1 || by[0] != own[0].ID || read != 5*Block+int64(len(about)) {
		t.Errorf("verified by %q, %d bytes read", by, read)
	}
	if again := signedFile(t, noise(5*Block), k); !bytes.Equal(content(t, f), content(t, again)) {
		t.Error("signed again, it is another file")
	}
	if _, err := i.Verify(t.Context(), keys(t).Unseal, nil); !errs.Is(err, errs.Forbidden) {
		t.Errorf("with another site's keys: %v", err)
	}
	if _, err := image(t, finished(t, noise(Block))).Verify(t.Context(), k.Unseal, nil); !errs.Is(err, errs.Forbidden) {
		t.Errorf("unsigned: %v", err)
	}
}

func TestSecondSignature(t *testing.T) {
	mine, theirs := keys(t), keys(t)
	f := signedFile(t, noise(Block), theirs)
	must(t, Sign(t.Context(), f, mine.Sign, nil))
	i := image(t, f)
	if by, err := i.Verify(t.Context(), mine.Unseal, nil); err != nil || len(by) != 1 || len(i.Signatures) != 2 {
		t.Errorf("%d signatures, verified by %q: %v", len(i.Signatures), by, err)
	}
	must(t, Repair(f))
	if !bytes.Equal(content(t, f), content(t, finished(t, noise(Block)))) {
		t.Error("the unsigned file is another one")
	}
}

func TestSignatureOfAnotherFile(t *testing.T) {
	k := keys(t)
	for what, at := range map[string]int64{"partition": PartitionOffset + 100, "manifest": PartitionOffset + Block + 3} {
		f := signedFile(t, noise(Block), k)
		_, err := f.WriteAt([]byte{'~'}, at)
		must(t, err)
		_, err = image(t, f).Verify(t.Context(), k.Unseal, nil)
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	longer := signedFile(t, noise(2*Block), k)
	envelope, err := image(t, longer).read(image(t, longer).Signatures[0])
	must(t, err)
	f := finished(t, noise(Block))
	must(t, Sign(t.Context(), f, func(string, []byte) ([]byte, error) { return envelope, nil }, nil))
	if _, err := image(t, f).Verify(t.Context(), k.Unseal, nil); !errors.Is(err, ErrChanged) {
		t.Errorf("with the signature of another: %v", err)
	}
}

// Everything is covered, but for the fields that name the hash and the fingerprint in a signature's descriptor, which
// nothing reads. Each run flips others of the bits.
func TestOneFlippedBitIsCaught(t *testing.T) {
	turn := int(rand.Uint32() % 64)
	t.Logf("turn %d", turn)
	k := keys(t)
	good := content(t, signedFile(t, noise(Block), k))
	const mark = descriptorsAt + 2*descriptorSize
	free := Span{mark + 201, 24}
	b := bytes.Clone(good)
	for at := range b {
		dense := at < 128 || at >= descriptorsAt && at < mark+2*descriptorSize || at >= PartitionOffset+Block
		if dense && at%4 != turn%4 || !dense && at%64 != turn || int64(at) >= free.Offset && int64(at) < free.end() {
			continue
		}
		b[at] ^= 1 << (at % 8)
		i, err := openBytes(b)
		if err == nil {
			_, err = i.Verify(t.Context(), k.Unseal, nil)
		}
		if err == nil {
			t.Fatalf("a changed bit at %d is not noticed", at)
		}
		b[at] = good[at]
	}
}

func TestRepairAfterAnInterruptedSignature(t *testing.T) {
	k := keys(t)
	unsigned := content(t, finished(t, noise(Block)))
	signed := content(t, signedFile(t, noise(Block), k))
	check := func(name string, torn []byte) {
		t.Helper()
		f, err := os.Create(filepath.Join(t.TempDir(), "torn.sif"))
		must(t, err)
		defer f.Close()
		_, err = f.Write(torn)
		must(t, err)
		must(t, Repair(f))
		if !bytes.Equal(content(t, f), unsigned) {
			t.Errorf("%s: it is another file", name)
		}
	}
	for n := len(unsigned); n <= len(signed); n += 50 {
		check("half a signature", append(bytes.Clone(unsigned), signed[len(unsigned):n]...))
	}
	for n := 0; n <= PartitionOffset; n += 512 {
		check("first sectors of the head", append(bytes.Clone(signed[:n]), append(bytes.Clone(unsigned[n:PartitionOffset]), signed[PartitionOffset:]...)...))
		check("last sectors of the head", append(bytes.Clone(unsigned[:n]), append(bytes.Clone(signed[n:PartitionOffset]), signed[PartitionOffset:]...)...))
		check("lost signature", append(bytes.Clone(signed[:n]), unsigned[n:]...))
	}
	check("signed", signed)
	check("as it was", unsigned)
}

func TestRepairRefusesOtherFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "other"))
	must(t, err)
	defer f.Close()
	_, err = f.Write(noise(2 * PartitionOffset))
	must(t, err)
	if err := Repair(f); !errs.Is(err, errs.Invalid) || !bytes.Equal(content(t, f), noise(2*PartitionOffset)) {
		t.Errorf("another file: %v", err)
	}
}

func TestSigningStops(t *testing.T) {
	k := keys(t)
	f := finished(t, noise(Block))
	before := content(t, f)
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := Sign(ctx, f, k.Sign, func(int64) { cancel(stop) }); !errors.Is(err, stop) {
		t.Errorf("canceled: %v", err)
	}
	if err := Sign(t.Context(), f, func(string, []byte) ([]byte, error) { return nil, stop }, nil); !errors.Is(err, stop) {
		t.Errorf("without a key: %v", err)
	}
	if !bytes.Equal(content(t, f), before) {
		t.Error("the file was changed")
	}
	for range descriptors - 2 {
		must(t, Sign(t.Context(), f, k.Sign, nil))
	}
	if err := Sign(t.Context(), f, k.Sign, nil); !errs.Is(err, errs.Conflict) {
		t.Errorf("with no room left: %v", err)
	}
	must(t, Repair(f))
	if !bytes.Equal(content(t, f), before) {
		t.Error("it is not repaired")
	}
}

// FuzzOpen changes two places of the head, and the file's size.
func FuzzOpen(f *testing.F) {
	k := keys(f)
	good := content(f, signedFile(f, noise(Block), k))
	f.Add(uint16(geometryAt), []byte{1, 2}, uint16(descriptorsAt+17), []byte{3}, int64(len(good)))
	f.Add(uint16(descriptorsAt), []byte{4, 0x40}, uint16(descriptorsAt+descriptorSize), []byte{4, 0x40}, int64(len(good)))
	f.Add(uint16(descriptorsAt+2*descriptorSize), []byte{0, 0, 0, 0, 0}, uint16(0), []byte{}, int64(len(good)))
	f.Fuzz(func(t *testing.T, at1 uint16, change1 []byte, at2 uint16, change2 []byte, size int64) {
		b := bytes.Clone(good)
		copy(b[at1%PartitionOffset:PartitionOffset], change1)
		copy(b[at2%PartitionOffset:PartitionOffset], change2)
		i, err := Open(bytes.NewReader(b), size)
		if err != nil {
			return
		}
		end := i.Manifest.end()
		for _, s := range i.Signatures {
			end = s.end()
		}
		if i.Partition.Offset != PartitionOffset || i.Partition.end() != i.Manifest.Offset || end != size {
			t.Errorf("accepted: %+v of %d bytes", i, size)
		}
		_, _ = i.ReadManifest()
		_, _ = i.Verify(t.Context(), k.Unseal, nil)
	})
}

// FuzzSigned changes what is behind the head.
func FuzzSigned(f *testing.F) {
	k := keys(f)
	good := content(f, signedFile(f, noise(Block), k))
	f.Add(uint16(0), []byte{1})
	f.Fuzz(func(t *testing.T, at uint16, change []byte) {
		b := bytes.Clone(good)
		copy(b[PartitionOffset+int(at)%(len(b)-PartitionOffset):], change)
		i, err := openBytes(b)
		if err == nil {
			_, err = i.Verify(t.Context(), k.Unseal, nil)
		}
		if (err == nil) != bytes.Equal(b, good) {
			t.Errorf("%d bytes changed at %d: %v", len(change), at, err)
		}
	})
}
