package engine

import (
	"fmt"
	"path"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/memsize"
	"slipway/spawner"
)

// mostOut is how many patterns of output files one job may name.
const mostOut = 100

// outLimit is how many bytes the patterns of one job may have together.
const outLimit = 4 << 10

// ownFile begins the names of the files that runners of cells and functions leave for their clients.
const ownFile = "slipway-"

// checkOut refuses patterns that no output file could ever match.
func checkOut(out []string) error {
	if len(out) > mostOut {
		return errs.Bad("out", fmt.Sprintf("%d patterns", len(out)), fmt.Sprintf("at most %d", mostOut))
	}
	if n := sizeOf(out, nil); n > outLimit {
		return errs.Bad("out", fmt.Sprintf("%d bytes", n), "at most "+memsize.Words(outLimit)+" in all: patterns such as *.root stand for many names")
	}
	for _, p := range out {
		if _, err := path.Match(p, ""); err != nil || p == "" || p == "." || p == ".." || strings.Contains(p, "/") {
			return errs.Bad("out", p, "names of files in the job's own directory, without directories, or patterns such as *.root")
		}
		if err := spawner.CheckName("out", p); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns those of a job's files that come back, and the patterns that none of them matches.
func wanted(out []string, files []control.File) (come []control.File, missing []string) {
	if len(out) == 0 {
		return files, nil
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name, ownFile) || matchesAny(out, f.Name) {
			come = append(come, f)
		}
	}
	for _, p := range out {
		found := false
		for _, f := range files {
			found = found || matches(p, f.Name)
		}
		if !found {
			missing = append(missing, p)
		}
	}
	return come, missing
}

// matches reports whether a pattern matches a name, or is that name, whatever signs are in it.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil || pattern == name
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// addMissing notes that a job which ended well has not left all that it was to leave.
func addMissing(o *spawner.Outcome, patterns []string) {
	if len(patterns) == 0 || o.Failed {
		return
	}
	o.Failed, o.ExitCode, o.Cause = true, max(o.ExitCode, 1), spawner.CauseOutput
	o.Reason = "its payload ended with 0 and has not left " + strings.Join(patterns, ", ")
	o.Remedy = "have it write these files into the directory in which it starts, or name others with --out"
}
