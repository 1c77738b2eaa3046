package records

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway/images/inventory"
	"slipway/internal/errs"
)

// Use is what the sessions of one owner, from which an environment was frozen, were using of it, and what came of
// trying that in the image alone. It is the owner's, not the image's: equal trees are one environment, whoever works in
// them.
type Use struct {
	// Imported are the modules that kernels had imported, by the interpreter's path; empty: the environment's own.
	Imported map[string][]string `json:"imported,omitempty"`
	CVMFS    []string            `json:"cvmfs,omitempty"` // repositories, such as sft.cern.ch
	Attempts []Attempt           `json:"attempts,omitempty"`
	Tried    time.Time           `json:"tried,omitzero"`
	Waiting  bool                `json:"waiting,omitempty"` // it is to be tried
	Why      string              `json:"why,omitempty"`     // it was not tried
}

// Attempt is what came of importing the modules of one interpreter.
type Attempt struct {
	Python  string                `json:"python"` // its path
	Result  inventory.SmokeResult `json:"result"`
	Skipped []string              `json:"skipped,omitempty"` // names that were not tried
	Why     string                `json:"why,omitempty"`     // there is no result
}

// The bounds of what a session says that it uses. It lies in the owner's record.
const (
	maxInterpreters = 8
	maxImported     = 500 // modules of one interpreter
	maxRepositories = 100
	maxProgram      = 1000 // bytes of an interpreter's path
	maxModule       = 100  // bytes of a module's or repository's name
)

var repositoryName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+$`)

// Validate refuses what no session would say.
func (u Use) Validate() error {
	if len(u.Imported) > maxInterpreters {
		return errs.New(
			errs.Invalid, "imported: %d interpreters, at most %d are looked at", len(u.Imported), maxInterpreters,
		)
	}
	for _, python := range slices.Sorted(maps.Keys(u.Imported)) {
		names := u.Imported[python]
		if len(python) > maxProgram || !utf8.ValidString(python) || strings.ContainsFunc(python, unicode.IsControl) {
			return errs.Bad("imported", python, "name interpreters by their paths, of printable characters")
		}
		if len(names) > maxImported || slices.ContainsFunc(names, func(n string) bool { return len(n) > maxModule || !utf8.ValidString(n) }) {
			return errs.New(errs.Invalid, "imported: %d modules of %.80q", len(names), python).
				With(fmt.Sprintf("name at most %d modules, by their first parts", maxImported))
		}
	}
	if len(u.CVMFS) > maxRepositories {
		return errs.New(errs.Invalid, "cvmfs: %d repositories, at most %d are noted", len(u.CVMFS), maxRepositories)
	}
	for _, name := range u.CVMFS {
		if len(name) > maxModule || !repositoryName.MatchString(name) {
			return errs.Bad("cvmfs", name, "name a repository, such as sft.cern.ch")
		}
	}
	return nil
}

// and joins what an earlier freeze said with what this one says. more is false when that is nothing new.
func (u Use) and(now Use) (joined Use, more bool) {
	joined = u
	joined.CVMFS = slices.Compact(slices.Sorted(slices.Values(slices.Concat(u.CVMFS, now.CVMFS))))
	joined.CVMFS = joined.CVMFS[:min(len(joined.CVMFS), maxRepositories)]
	joined.Imported = map[string][]string{}
	maps.Copy(joined.Imported, u.Imported)
	modules := false
	for _, python := range slices.Sorted(maps.Keys(now.Imported)) {
		had, known := joined.Imported[python]
		all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(had, now.Imported[python]))))
		all = all[:min(len(all), maxImported)]
		if slices.Equal(all, had) || !known && len(joined.Imported) == maxInterpreters {
			continue
		}
		joined.Imported[python], modules = all, true
	}
	if modules {
		joined.Waiting, joined.Why = true, ""
	}
	return joined, modules || len(joined.CVMFS) > len(u.CVMFS)
}

// Broken counts the modules that were tried, and those of them that cannot be imported for a reason that lies in the
// image.
func (u Use) Broken() (modules, broken int) {
	for _, a := range u.Attempts {
		modules, broken = modules+a.Result.Modules, broken+len(a.Result.Broken())
	}
	return modules, broken
}

// Lines tells people what is wrong, nothing when all is well.
func (u Use) Lines() []string {
	var out []string
	for _, a := range u.Attempts {
		lines := a.Result.Lines()
		if a.Why != "" {
			lines = append(lines, "not tried: "+a.Why)
		}
		for _, l := range lines {
			if len(u.Attempts) > 1 && a.Python != "" {
				l = a.Python + ": " + l
			}
			out = append(out, l)
		}
	}
	if u.Why != "" {
		out = append(out, "not tried yet: "+u.Why)
	}
	return out
}
