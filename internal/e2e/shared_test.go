package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"slipway/internal/testenv/program"
)

// What is made once for all tests: the program, and the base of the notebook image.
var (
	shared = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "slipway-e2e") })

	buildOnce = sync.OnceValues(func() (string, error) {
		dir, err := shared()
		if err != nil {
			return "", err
		}
		return program.Build(dir)
	})

	convertOnce sync.Once
)

// TestMain removes it.
func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := shared(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// haveBase gives a site, before it serves, the base of the notebook image: to make one takes both processors some seconds, and is done
// anew by each service that is killed meanwhile. The first site makes it; who tests just that forgets it again.
func (s *site) haveBase() {
	s.t.Helper()
	dir, err := shared()
	if err != nil {
		s.t.Fatal(err)
	}
	ours, its := filepath.Join(dir, "bases"), filepath.Join(s.dir, "data", "environments", "bases")
	convertOnce.Do(func() {
		s.serve()
		s.converted()
		s.kill()
		s.link(its, ours)
	})
	s.link(ours, its)
}

// link puts the files of a directory into another as well. Between file systems it does nothing: a base is made anew there.
func (s *site) link(from, to string) {
	s.t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		s.t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(from, "*"))
	for _, file := range files {
		err := os.Link(file, filepath.Join(to, filepath.Base(file)))
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.EXDEV) {
			s.t.Fatal(err)
		}
	}
}
