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

// What is made once for all tests: the program, and the bases of the images.
var (
	shared = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "slipway-e2e") })

	buildOnce = sync.OnceValues(func() (string, error) {
		dir, err := shared()
		if err != nil {
			return "", err
		}
		return program.Build(dir)
	})

	convertOnce [2]sync.Once // by the number of a site's images
)

// TestMain removes it.
func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := shared(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// haveBases gives a site, before it serves, the bases of its images: to make one takes both processors for long, and is
// done anew by each service that is killed meanwhile. The first site that has so many images makes them; who tests just
// that forgets them again.
func (s *site) haveBases(images int) {
	s.t.Helper()
	dir, err := shared()
	if err != nil {
		s.t.Fatal(err)
	}
	ours, its := filepath.Join(dir, "bases"), filepath.Join(s.dir, "data", "environments", "bases")
	s.link(ours, its)
	convertOnce[images-1].Do(func() {
		s.serve()
		s.converted(images)
		s.kill()
		s.link(its, ours)
	})
	s.link(ours, its)
}

// link puts the files of a directory into another as well. Between file systems it does nothing: a base is made anew
// there.
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
