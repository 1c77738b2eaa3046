package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
)

// maxFiles is how many of a job's files are brought back at most.
const maxFiles = 10_000

// remains says what of a run was put where it comes back from.
type remains struct {
	status bool  // the agent has left its last word
	pack   int64 // bytes of a session's changes; 0: there are none
	log    int64 // bytes of output
	list   []control.File
	missed string // lines on what had to stay
}

// gather moves what the agent has left into the directory that comes back. Nothing runs any more.
func (w *worker) gather() remains {
	g := gatherer{box: w.box, logger: w.log, inputs: w.inputs}
	if !plainDir(w.box.own(runDir)) {
		g.miss("what the run has left", errors.New("its directory is gone"))
		return g.remains
	}
	last := w.box.own(runDir, filepath.Base(control.LastDir))
	if plainDir(last) {
		g.status = g.move(filepath.Join(last, filepath.Base(control.LastStatus)), StatusFile, MaxStatus)
		if w.plan.Session {
			g.changes(filepath.Join(last, filepath.Base(control.LastPack)))
		}
	}
	g.printed()
	if !w.plan.Session {
		g.files()
	}
	return g.remains
}

type gatherer struct {
	remains
	box    sandbox
	logger *slog.Logger
	inputs map[string]bool
}

func (g *gatherer) miss(what string, err error) {
	g.logger.Warn("left behind", "what", what, "error", err)
	if len(g.missed) < tailSize {
		g.missed += fmt.Sprintf("slipway: %s was left behind: %v\n", what, err)
	}
}

// move moves a regular file of at most limit bytes to where it comes back from, if it is there; limit -1: whatever its
// size.
func (g *gatherer) move(from, name string, limit int64) bool {
	st, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err == nil && limit >= 0 && st.Size() > limit {
		err = fmt.Errorf("it has %d bytes, and may have %d", st.Size(), limit)
	}
	if err == nil {
		err = os.Chmod(from, st.Mode().Perm()|0o600) // it must be readable to travel
	}
	if err == nil {
		err = moveFile(from, g.box.path(OutDir, name))
	}
	if err != nil {
		g.miss(name, err)
	}
	return err == nil
}

// changes brings a session's. The agent has packed them, and an empty file is no pack.
func (g *gatherer) changes(from string) {
	if st, err := os.Lstat(from); g.move(from, PackFile, -1) && err == nil {
		g.pack = st.Size()
	}
}

// printed brings the app's output, whose beginning is in a second file when only its end was kept.
func (g *gatherer) printed() {
	log := g.box.own(runDir, filepath.Base(control.LogFile))
	older := log + ".1"
	if st, err := os.Lstat(older); err == nil && st.Mode().IsRegular() {
		if err := appendTo(older, log); err == nil {
			log = older
		} else {
			g.miss("the beginning of the output", err)
		}
	}
	if st, err := os.Lstat(log); err == nil && st.Mode().IsRegular() && st.Size() > MaxLog {
		if err := os.Truncate(log, MaxLog); err != nil {
			g.miss("the output", err)
			return
		}
	}
	if st, err := os.Lstat(log); g.move(log, LogFile, MaxLog) && err == nil {
		g.log = st.Size()
	}
}

// appendTo puts a file behind another.
func appendTo(name, more string) error {
	if st, err := os.Lstat(more); err != nil || !st.Mode().IsRegular() {
		return errors.Join(errors.New("no newer output is there"), err)
	}
	from, err := os.Open(more)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.LimitReader(from, MaxLog))
	return errors.Join(err, to.Close())
}

// files brings the regular files of the work directory that are no inputs.
func (g *gatherer) files() {
	dir := g.box.own(runDir, filepath.Base(control.WorkDir))
	if !plainDir(dir) {
		return
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		g.miss("the output files", err)
		return
	}
	n := 0
	for _, e := range list {
		if !e.Type().IsRegular() || g.inputs[e.Name()] || control.CheckName(e.Name()) != nil {
			continue
		}
		if n++; n > maxFiles {
			g.miss("output files", fmt.Errorf("there are more than %d", maxFiles))
			return
		}
		st, err := e.Info()
		if g.move(filepath.Join(dir, e.Name()), filepath.Join(FilesDir, e.Name()), control.FileLimit) && err == nil {
			g.list = append(g.list, control.File{Name: e.Name(), Size: st.Size()})
		}
	}
}

// plainDir reports whether a name is a directory itself, and no link to one.
func plainDir(name string) bool {
	st, err := os.Lstat(name)
	return err == nil && st.IsDir()
}
