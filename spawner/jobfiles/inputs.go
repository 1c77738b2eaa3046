package jobfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"slipway/internal/errs"
	"slipway/spawner"
)

// The input files of jobs that are submitted together lie once, in a bundle: a directory that all of them read, and
// those that are submitted anew from them. It bears the ID of the first job that had it, and is removed with the last
// one. What a service that was killed has left of one, no record names.

// CheckInputName refuses what cannot be the name of an input file.
func CheckInputName(name string) error {
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return errs.Bad("files", name, "names without directories and without a leading dot")
	}
	return spawner.CheckName("files", name)
}

func (s *Store) bundles() string { return s.beside("inputs") }

func (s *Store) bundle(b spawner.ID) string { return filepath.Join(s.bundles(), string(b)) }

// InputDir returns where the input files of a job lie. Old records have them in their own directories. Any lock may be
// held.
func (s *Store) InputDir(w spawner.Workload) string {
	if w.Bundle == "" {
		return filepath.Join(s.Dir(w.ID), "inputs")
	}
	return s.bundle(w.Bundle)
}

// MakeBundle keeps input files in a bundle, for their jobs may have to wait, the service may restart meanwhile, and
// they may be tried again: files by their contents, and links to files that are on this disk already. The names were
// checked.
func (s *Store) MakeBundle(b spawner.ID, files map[string][]byte, links map[string]string) error {
	dir := s.bundle(b)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep the input files: %w", err)
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(dir, name), bytes.NewReader(content)); err != nil {
			return fmt.Errorf("keep input file %s: %w", name, err)
		}
	}
	for name, path := range links {
		if err := linkFile(path, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("keep input file %s: %w", name, err)
		}
	}
	return nil
}

// ClearBundle removes a bundle that nobody has. Nobody will: whoever gets one gets it from a job that has it.
func (s *Store) ClearBundle(b spawner.ID) {
	if b == "" || s.cfg.Needed(b) {
		return
	}
	if err := os.RemoveAll(s.bundle(b)); err != nil {
		s.log.Warn("cannot remove input files that no job has", "bundle", b, "err", err)
	}
	s.UncountBundle(b)
}

// CheckInputs refuses a job of which input files are not kept any more: it could not be tried again.
func (s *Store) CheckInputs(w spawner.Workload) error {
	for _, name := range w.Spec.Inputs {
		if _, err := os.Lstat(filepath.Join(s.InputDir(w), name)); errors.Is(err, os.ErrNotExist) {
			return errs.New(errs.Conflict, "input file %s of job %s is not kept any more", name, w.ID).
				With("submit it again, with its files")
		} else if err != nil {
			return fmt.Errorf("look at input file %s of job %s: %w", name, w.ID, err)
		}
	}
	return nil
}

// InputText returns an input file of a job, if it is text of at most so many bytes; else nothing.
func (s *Store) InputText(w spawner.Workload, name string, most int64) (string, error) {
	f, err := os.Open(filepath.Join(s.InputDir(w), name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || int64(len(text)) > most || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return "", err
	}
	return string(text), nil
}
