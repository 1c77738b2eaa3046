package inventory

import (
	"fmt"
	"strings"
)

// Lines says a difference to people: "+ torch 2.9.0", "- scipy 1.14.0", "~ numpy 2.3.1 -> 2.3.4", facts, and a count of
// files.
func (d Difference) Lines() []string {
	var out []string
	for _, f := range d.Facts {
		out = append(out, f.line())
	}
	for _, p := range d.Added {
		out = append(out, "+ "+p.line())
	}
	for _, p := range d.Removed {
		out = append(out, "- "+p.line())
	}
	for _, c := range d.Changed {
		out = append(out, c.line())
	}
	if d.Files != nil {
		out = append(out, d.Files.Line())
	}
	return out
}

func (f Fact) line() string {
	switch {
	case f.Old == "":
		return fmt.Sprintf("+ %s %s", line(f.What), line(f.New))
	case f.New == "":
		return fmt.Sprintf("- %s %s", line(f.What), line(f.Old))
	}
	return fmt.Sprintf("~ %s %s -> %s", line(f.What), line(f.Old), line(f.New))
}

// line names a package. Most are pip's, so that is not said.
func (p Package) line() string {
	out := line(p.Name) + " " + p.release()
	if p.Manager != Pip {
		out += " (" + string(p.Manager) + ")"
	}
	return out
}

func (p Package) release() string {
	switch {
	case p.Editable != "":
		return line(p.Version) + " in " + line(p.Editable)
	case p.Commit != "":
		return line(p.Version) + " at " + line(p.Commit[:min(len(p.Commit), 12)])
	}
	return line(p.Version)
}

func (c Change) line() string {
	old, now := c.Old.release(), c.New.release()
	if old == now { // the same version, built another time
		old, now = old+" "+line(c.Old.Build), now+" "+line(c.New.Build)
	}
	out := fmt.Sprintf("~ %s %s -> %s", line(c.New.Name), old, now)
	if c.New.Manager != Pip {
		out += " (" + string(c.New.Manager) + ")"
	}
	return out
}

// Line says how many files differ: "12 files added, 214 changed, 3 removed".
func (f FileChanges) Line() string {
	var parts []string
	for _, x := range []struct {
		n    int
		word string
	}{{f.Added, "added"}, {f.Changed, "changed"}, {f.Removed, "removed"}} {
		switch {
		case x.n == 0:
		case len(parts) > 0:
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.word))
		case x.n == 1:
			parts = append(parts, "1 file "+x.word)
		default:
			parts = append(parts, fmt.Sprintf("%d files %s", x.n, x.word))
		}
	}
	if len(parts) == 0 {
		return "no files changed"
	}
	return strings.Join(parts, ", ")
}
