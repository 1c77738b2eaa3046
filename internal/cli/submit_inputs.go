package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// What of a job's files goes with the request, which has 1 MiB at most; the others are put into the store before.
const (
	largeFile = 64 << 10
	allFiles  = 256 << 10
	headSize  = 4 << 10 // of the script: its first line says what runs it
)

// inputs are the files that travel with a job.
type inputs struct {
	script string            // the name of the one that is run
	head   string            // its beginning
	files  map[string][]byte // with the request, by name
	large  map[string]stored // by way of the store
}

// stored is a file that goes into the caller's store.
type stored struct {
	path, digest string
	size         int64
}

// readInputs reads the script, and the files that go with it. A name may be there only once: they all come to lie in
// one directory.
func readInputs(script string, paths []string) (inputs, error) {
	load := inputs{script: filepath.Base(script), files: map[string][]byte{}, large: map[string]stored{}}
	total := int64(0)
	for i, path := range append([]string{script}, paths...) {
		name := filepath.Base(path)
		info, err := os.Stat(path)
		switch {
		case err != nil && i == 0:
			return load, errs.New(errs.Invalid, "read the script: %w", err).With("give the path of a file")
		case err != nil:
			return load, errs.New(errs.Invalid, "--in: %w", err).With("give the path of a file that is there")
		case !info.Mode().IsRegular():
			return load, errs.New(errs.Invalid, "%s is not a file", path).
				With("pack a directory into one file, as tar does, and unpack it in the script")
		case load.has(name):
			return load, errs.New(errs.Invalid, "two files are named %s", name).
				With("they come to lie in one directory: give each its own name")
		}
		if info.Size() > largeFile || total+info.Size() > allFiles {
			if load.large[name], err = storedFile(path); err != nil {
				return load, unreadable(path, err)
			}
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return load, unreadable(path, err)
		}
		load.files[name] = text
		total += int64(len(text))
	}
	var err error
	load.head, err = headOf(script)
	return load, err
}

func unreadable(path string, err error) error {
	return errs.New(errs.Invalid, "read %s: %w", path, err).With("give the path of a file that you may read")
}

func headOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", unreadable(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, headSize))
	return string(text), err
}

func (load inputs) has(name string) bool {
	_, small := load.files[name]
	_, large := load.large[name]
	return small || large
}

func storedFile(path string) (stored, error) {
	f, err := os.Open(path)
	if err != nil {
		return stored{}, err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	return stored{path: path, digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), size: n}, err
}

// blobs names the digests of the large files.
func (load inputs) blobs() map[string]string {
	if len(load.large) == 0 {
		return nil
	}
	digests := map[string]string{}
	for name, s := range load.large {
		digests[name] = s.digest
	}
	return digests
}

// size counts the files and their bytes.
func (load inputs) size() (files int, bytes int64) {
	for _, text := range load.files {
		bytes += int64(len(text))
	}
	for _, s := range load.large {
		bytes += s.size
	}
	return len(load.files) + len(load.large), bytes
}

// put puts the large files into the caller's store. What is there already is not sent again; a file is, when the
// service was away or had no room meanwhile.
func (load inputs) put(ctx context.Context, notes io.Writer, client *hubapi.Client) error {
	for _, name := range slices.Sorted(maps.Keys(load.large)) {
		s := load.large[name]
		if there, err := client.HasBlob(ctx, s.digest); err == nil && there {
			fmt.Fprintf(notes, "upload: %s is there already\n", render.Printable(name))
			continue
		}
		err := again(ctx, time.Second, submitPatience, func() (bool, error) {
			err := s.put(ctx, notes, name, client)
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("upload %s: %w", name, err)
		}
		fmt.Fprintf(notes, "upload: %s, %s\n", render.Printable(name), units.DiskWords(s.size))
	}
	return nil
}

func (s stored) put(ctx context.Context, notes io.Writer, name string, client *hubapi.Client) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return client.PutBlob(
		ctx, s.digest, s.size, &sent{r: f, of: s.size, name: render.Printable(name), notes: notes, told: time.Now()},
	)
}

// sent tells now and then how much of a file has been read.
type sent struct {
	r      io.Reader
	at, of int64
	name   string
	notes  io.Writer
	told   time.Time
}

// Read reads on.
func (s *sent) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.at += int64(n)
	if time.Since(s.told) >= stepEvery && s.of > 0 {
		s.told = time.Now()
		fmt.Fprintf(
			s.notes, "upload: %s: %s of %s (%d%%)\n", s.name, units.DiskWords(s.at), units.DiskWords(s.of),
			100*s.at/s.of,
		)
	}
	return n, err
}
