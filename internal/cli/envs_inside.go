package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/images/inventory"
	"slipway/internal/units"
)

func checkouts(list []inventory.Checkout) []string {
	var out []string
	for _, g := range list {
		words := []string{g.Path}
		switch {
		case g.Commit == "":
			words = append(words, "without a commit")
		case g.Branch == "":
			words = append(words, "at "+g.Commit[:min(len(g.Commit), 12)])
		default:
			words = append(words, fmt.Sprintf("at %s of %s", g.Commit[:min(len(g.Commit), 12)], g.Branch))
		}
		words = append(words, checkoutState(g))
		if g.Remote != "" {
			words = append(words, "from "+g.Remote)
		}
		out = append(out, strings.Join(words, ", "))
	}
	return out
}

// checkoutState says what of a working tree its commit does not have.
func checkoutState(g inventory.Checkout) string {
	var words string
	switch {
	case g.State == inventory.Unknown && g.Why != "":
		words = "state unknown: " + g.Why
	case g.State == inventory.Modified && g.Modified > 0:
		words = units.Count(int64(g.Modified), "file", "files") + " modified"
	default:
		words = string(g.State)
	}
	if g.Others > 0 {
		words += fmt.Sprintf(", %s not tracked", units.Grouped(int64(g.Others)))
	}
	return words
}

func outsideTitle(o inventory.Outside) string {
	return fmt.Sprintf(
		"Files outside of any package: %s, %s. The largest:", units.Grouped(int64(o.Files)), units.DiskWords(o.Bytes),
	)
}

func outsideLines(o inventory.Outside) []string {
	var lines []string
	for _, f := range o.Largest {
		lines = append(lines, fmt.Sprintf("%7s  %s", units.DiskWords(f.Bytes), f.Path))
	}
	return units.Bounded(lines, o.Files)
}

func losses(l hubapi.Losses) []string {
	var out []string
	for _, x := range []struct {
		n         int64
		one, many string
	}{
		{l.ACLs, "POSIX access list", "POSIX access lists"},
		{l.Xattrs, "extended attribute of a namespace of its own", "extended attributes of other namespaces"},
		{l.Times, "time before 1970 or after 2106", "times before 1970 or after 2106"},
	} {
		if x.n > 0 {
			out = append(out, units.Count(x.n, x.one, x.many))
		}
	}
	for _, path := range units.Bounded(l.Paths, len(l.Paths)) {
		out = append(out, "  "+path)
	}
	return out
}

// stripLines lists rules below the reason that they share.
func stripLines(rules []hubapi.StripRule) []string {
	byWhy := map[string][]string{}
	for _, r := range rules {
		byWhy[r.Why] = append(byWhy[r.Why], "  "+r.Pattern)
	}
	var out []string
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		out = append(append(out, why+":"), byWhy[why]...)
	}
	return out
}

func packageLines(list []inventory.Package) []string {
	var out []string
	for _, p := range list {
		line := fmt.Sprintf("%-5s  %s %s", p.Manager, p.Name, p.Version)
		if p.Editable != "" {
			line += " in " + p.Editable
		}
		out = append(out, line)
	}
	return out
}

// importWords says in a line how an environment's imports are.
func importWords(i *hubapi.Imports) string {
	if i == nil {
		return "not known; a freeze by %freeze or within the session notes what kernels have imported, and tries it"
	}
	modules := units.Count(int64(i.Modules), "module", "modules")
	switch {
	case i.State == hubapi.ImportsWaiting:
		return "to be tried in the image alone"
	case i.State == hubapi.ImportsUntried:
		return "could not be tried, see below"
	case i.Broken > 0:
		return fmt.Sprintf("%d of the %s that kernels had imported cannot be imported from the image alone, as a batch job has it; see below", i.Broken, modules)
	case i.Modules == 0:
		return "nothing but Python's own modules, so there was nothing to try"
	case len(i.Lines) > 0:
		return fmt.Sprintf("of the %s that kernels had imported some could not be tried, see below", modules)
	}
	return "the " + modules + " that kernels had imported can be imported from the image alone"
}

func importLines(i *hubapi.Imports) []string {
	if i == nil {
		return nil
	}
	return i.Lines
}

func repositories(list []hubapi.Repository) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name+": "+strings.Join(r.Found[:min(len(r.Found), 3)], ", "))
		if n := len(r.Found) - 3; n > 0 {
			out[len(out)-1] += ", ..."
		}
	}
	return out
}
