package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Find returns the path of the program that argv names: by the app's PATH, not the agent's, and from the app's
// directory.
func Find(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, runnable(name)
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		p := filepath.Join(d, name)
		err := runnable(p)
		if err == nil {
			return p, nil
		}
		if errors.Is(err, syscall.EACCES) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("it is on none of the directories of PATH (%s): %w", path, syscall.ENOENT)
}

func runnable(p string) error {
	st, err := os.Stat(p)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("%s: %w", p, syscall.EISDIR)
	case st.Mode()&0o111 == 0:
		return fmt.Errorf("%s: %w", p, syscall.EACCES)
	}
	return nil
}

// CannotRun returns the exit code and the reason, in plain words, of a program that could not be started.
func CannotRun(name string, found bool, err error) (int, string) {
	check := "check the agent's log"
	code := 126
	switch {
	case errors.Is(err, syscall.ENOENT) && found:
		check = "check its first line: the interpreter that it names is missing"
	case errors.Is(err, syscall.ENOENT):
		code, check = 127, "check its spelling, and that the image or environment has it"
	case errors.Is(err, syscall.EACCES):
		check = "check that it may be executed (chmod +x)"
	case errors.Is(err, syscall.EISDIR):
		check = "it is a directory: name a program"
	case errors.Is(err, syscall.ENOEXEC):
		check = "check that it is built for this machine, or that its first line (#!) names an interpreter"
	case errors.Is(err, syscall.E2BIG):
		check = "its arguments and environment are too long: pass data in a file"
	}
	return code, fmt.Sprintf("cannot run %q: %v: %s", name, err, check)
}

// ExitCode returns the code, as shells have it, and the reason of an end by a signal.
func ExitCode(s syscall.WaitStatus) (int, string) {
	if s.Signaled() {
		return 128 + int(s.Signal()), fmt.Sprintf("ended by signal %d (%s)", int(s.Signal()), s.Signal())
	}
	return s.ExitStatus(), ""
}
