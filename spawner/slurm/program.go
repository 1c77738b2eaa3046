package slurm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"slipway/spawner/batch"
)

const (
	programsDir = ".bin"    // in the shared directory: the agent's program, a directory for each version
	programLink = "program" // in a workload's directory: leads to the version that its job runs
)

// program returns where the nodes find the agent's program: a copy in the shared directory, one for each version. What
// no workload runs any more is removed when there is a new one.
func (s *system) program(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("find the agent's program: %w", err)
	}
	version := fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size())
	s.copying.Lock()
	defer s.copying.Unlock()
	if copied := s.programs[version]; copied != "" {
		return copied, nil
	}
	dir := filepath.Join(s.cfg.Dir, programsDir, version)
	copied := filepath.Join(dir, filepath.Base(file))
	if _, err := os.Stat(copied); err != nil {
		if err := copyProgram(file, copied); err != nil {
			return "", fmt.Errorf("copy the agent's program for the nodes: %w", err)
		}
	}
	s.programs[version] = copied
	if err := s.removeUnused(); err != nil {
		s.cfg.Logger.Warn("programs of earlier versions stay in the shared directory", "error", err)
	}
	return copied, nil
}

// noteProgram notes in a workload's directory, which is root's, which program its job runs.
func noteProgram(box batch.Sandbox, program string) error {
	link := filepath.Join(filepath.Dir(string(box)), programLink)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(filepath.Dir(program), link)
}

// removeUnused removes the versions of the program that nobody runs or will: neither this service, nor a workload that
// has a directory. Of one that was submitted before its program was noted, it is not known, and all stay.
func (s *system) removeUnused() error {
	versions, err := os.ReadDir(filepath.Join(s.cfg.Dir, programsDir))
	if err != nil {
		return err
	}
	all, err := batch.NewRecords(s.cfg.Dir).IDs()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for version := range s.programs {
		used[version] = true
	}
	for _, id := range all {
		dir, err := os.Readlink(filepath.Join(s.cfg.Dir, string(id), programLink))
		if err != nil {
			return nil // submitted before programs were noted, or about to be
		}
		used[filepath.Base(dir)] = true
	}
	unused := slices.DeleteFunc(versions, func(v os.DirEntry) bool { return used[v.Name()] })
	for _, v := range unused {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.cfg.Dir, programsDir, v.Name())))
	}
	return err
}

// copyProgram puts a program where every user can run it, whatever the umask.
func copyProgram(from, to string) (err error) {
	dir := filepath.Dir(to)
	err = errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755))
	if err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	part, err := os.CreateTemp(filepath.Dir(to), ".part-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(part, in)
	if err = errors.Join(err, part.Chmod(0o755), part.Sync(), part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return os.Rename(part.Name(), to)
}
