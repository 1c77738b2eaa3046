package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// What the worker itself makes, on the node's own disk where it has a directory there.
const (
	runDir     = "run"     // bound on control.RunDir
	binDir     = "bin"     // bound on control.BinDir; holds the agent's program
	homeDir    = "home"    // a job's, where the node has none
	scratchDir = "scratch" // /tmp and /var/tmp inside, in directories that Apptainer too calls so
	tmpDir     = "tmp"
	varTmpDir  = "var_tmp"
	overlayDir = "overlay" // a session's changes
	upperDir   = "upper"   // in it, as Apptainer has it
	imageFile  = "image"   // what was fetched, where there is no cache
)

// reserved is a file of the sandbox: room for the last word, on a disk that the run has filled.
const reserved = "reserve"

const maxPlan = 1 << 20 // bytes of a plan, or of an uplink

// sandbox is the directory that the batch system made for the run. All in it is the user's.
type sandbox struct {
	dir   string
	local string // holds what the run writes; dir itself, unless the node has a directory for it
}

func openSandbox(dir string) (sandbox, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return sandbox{}, fmt.Errorf("find the sandbox: %w", err)
	}
	return sandbox{dir: abs, local: abs}, nil
}

func (s sandbox) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// own is the path of what the worker itself makes.
func (s sandbox) own(elem ...string) string {
	return filepath.Join(append([]string{s.local}, elem...)...)
}

// begin makes the directory that comes back, with the end that holds unless another is written.
func (s sandbox) begin(e End) error {
	if err := os.MkdirAll(s.path(OutDir, FilesDir), 0o700); err != nil {
		return fmt.Errorf("make the directory that comes back: %w", err)
	}
	if err := s.write(e); err != nil {
		return err
	}
	// where even that does not fit, the end is about to be told
	_ = os.WriteFile(s.path(reserved), make([]byte, 4*tailSize), 0o600)
	return nil
}

// finish writes down how it ended. On a full disk what the run has used makes room.
func (s sandbox) finish(e End) error {
	_ = os.Remove(s.path(reserved))
	err := s.write(e)
	if err == nil {
		return nil
	}
	for _, name := range []string{scratchDir, overlayDir, imageFile, homeDir} {
		_ = os.RemoveAll(s.own(name))
	}
	if s.write(e) == nil {
		return nil
	}
	return err
}

func (s sandbox) write(e End) error { return s.writeJSON(EndFile, e) }

// writeJSON writes a file that comes back. It is there whole, or as it was.
func (s sandbox) writeJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	next := s.path(OutDir, "."+name)
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(next))
	}
	return os.Rename(next, s.path(OutDir, name))
}

// plan reads what is to be run.
func (s sandbox) plan() (Plan, error) {
	var p Plan
	if err := s.read(PlanFile, &p); err != nil {
		return Plan{}, err
	}
	return p, p.check(s.dir)
}

// uplink reads how the service is reached.
func (s sandbox) uplink() (control.Uplink, error) {
	var u control.Uplink
	return u, s.read(filepath.Join(LinkDir, filepath.Base(control.UplinkFile)), &u)
}

func (s sandbox) read(name string, into any) error {
	f, err := os.Open(s.path(name))
	if err != nil {
		return fmt.Errorf("read what was sent along: %w", err)
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxPlan)).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// check refuses what Apptainer's options cannot express.
func (p Plan) check(dir string) error {
	paths := append([]string{dir, p.Home}, p.Binds...)
	for _, path := range []string{p.HomeDir, p.Scratch} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" ||
			strings.ContainsAny(path, ":,\\\"'\n\r\t\x00") {
			return errs.Bad("path", path, "an absolute path without colons, commas, quotes and blanks")
		}
	}
	if p.ID == "" || p.Launch == "" {
		return errs.New(errs.Invalid, "read %s: it names no run", PlanFile)
	}
	for name, value := range p.Env {
		if strings.ContainsRune(value, 0) {
			return errs.Bad("env", name, "a value without NUL bytes")
		}
	}
	return nil
}

// furnish makes the directories of the run, and puts its files in place.
func (s sandbox) furnish(program string, p Plan) error {
	for _, dir := range []string{
		s.own(runDir, "bin"), s.own(runDir, "link"), s.own(runDir, "work"), s.own(runDir, "overlay"),
		s.own(scratchDir, tmpDir), s.own(scratchDir, varTmpDir), s.own(binDir), s.own(homeDir), s.own(overlayDir),
		s.path(LinkDir), s.path(Inputs),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("furnish the sandbox: %w", err)
		}
	}
	if p.keepsHome() {
		if err := s.makeHome(p); err != nil {
			return err
		}
	}
	if err := s.keepToOneself(LinkDir); err != nil {
		return err
	}
	return s.install(program)
}

// keepToOneself takes everybody else's rights to what lies in a directory: not every batch system brings the modes
// along.
func (s sandbox) keepToOneself(dir string) error {
	list, err := os.ReadDir(s.path(dir))
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	for _, e := range list {
		if !e.Type().IsRegular() {
			continue
		}
		if err := os.Chmod(s.path(dir, e.Name()), 0o600); err != nil {
			return fmt.Errorf("keep %s to its owner: %w", dir, err)
		}
	}
	return nil
}

// install puts the agent's program where it is bound from.
func (s sandbox) install(program string) error {
	to := s.own(binDir, filepath.Base(control.Program))
	if os.Link(program, to) == nil {
		return nil
	}
	from, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("put the agent in place: %w", err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return fmt.Errorf("put the agent in place: %w", err)
	}
	_, err = io.Copy(f, from)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("put the agent in place: %w", err)
	}
	return nil
}

// takeInputs moves a job's input files into its work directory, and names them.
func (s sandbox) takeInputs() (names map[string]bool, err error) {
	list, err := os.ReadDir(s.path(Inputs))
	if err != nil {
		return nil, fmt.Errorf("look at the inputs: %w", err)
	}
	names = map[string]bool{}
	for _, e := range list {
		if !e.Type().IsRegular() || control.CheckName(e.Name()) != nil {
			continue
		}
		names[e.Name()] = true
		to := s.own(runDir, "work", e.Name())
		if err := errors.Join(moveFile(s.path(Inputs, e.Name()), to), os.Chmod(to, 0o700)); err != nil {
			return nil, fmt.Errorf("put the input %q in place: %w", e.Name(), err)
		}
	}
	return names, nil
}

// moveFile moves a file, also to another disk.
func moveFile(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return os.Remove(from)
}

// nodeHome returns the user's home on the node; empty: she has none there.
func (p Plan) nodeHome() string {
	if st, err := os.Stat(p.HomeDir); p.HomeDir != "" && err == nil && st.IsDir() && ownerOf(st) == os.Getuid() {
		return p.HomeDir
	}
	return ""
}

// keepsHome says whether the home is among what the run changes of its tree, and comes back with it. On a node where
// the user has no home a job's is empty, and goes with the job; a session's is where its notebooks are.
func (p Plan) keepsHome() bool { return p.Session && p.nodeHome() == "" }

// makeHome makes such a home. Whoever starts from what was kept finds in it what the last session had there.
func (s sandbox) makeHome(p Plan) error {
	at := s.own(overlayDir, upperDir)
	for _, part := range append([]string{"."}, strings.Split(p.Home[1:], "/")...) {
		at = filepath.Join(at, part)
		// as images have them, whatever the umask
		if err := errors.Join(os.MkdirAll(at, 0o755), os.Chmod(at, 0o755)); err != nil {
			return fmt.Errorf("make the home: %w", err)
		}
	}
	return os.Chmod(at, 0o700)
}

// ownerOf returns a file's owner; -1: it is not known.
func ownerOf(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}
