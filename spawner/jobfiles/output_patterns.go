package jobfiles

import (
	"fmt"
	"path"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

// mostPatterns is how many patterns of output files one job may name.
const mostPatterns = 100

// patternsLimit is how many bytes the patterns of one job may have together, with one that ends each.
const patternsLimit = 4 << 10

// ownFile begins the names of the files that runners of cells and functions leave for their clients.
const ownFile = "slipway-"

// CheckPatterns refuses patterns that no output file could ever match.
func CheckPatterns(out []string) error {
	if len(out) > mostPatterns {
		return errs.Bad("out", fmt.Sprintf("%d patterns", len(out)), fmt.Sprintf("at most %d", mostPatterns))
	}
	n := 0
	for _, p := range out {
		n += len(p) + 1
	}
	if n > patternsLimit {
		return errs.Bad("out", fmt.Sprintf("%d bytes", n),
			"at most "+units.MemoryWords(patternsLimit)+" in all: patterns such as *.root stand for many names")
	}
	for _, p := range out {
		if _, err := path.Match(p, ""); err != nil || p == "" || p == "." || p == ".." || strings.Contains(p, "/") {
			return errs.Bad("out", p,
				"names of files in the job's own directory, without directories, or patterns such as *.root")
		}
		if err := spawner.CheckName("out", p); err != nil {
			return err
		}
	}
	return nil
}

// Wanted returns those of a job's files that come back, and the patterns that none of them matches. Without patterns
// all come.
func Wanted(out []string, files []control.File) (come []control.File, missing []string) {
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
