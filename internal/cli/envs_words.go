package cli

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// largest returns a row for each environment, those with the most bytes of their own first. One that has several names
// is there once.
func largest(list []hubapi.Environment, now time.Time) [][]string {
	names := namesByDigest(list)
	seen := map[string]bool{}
	once := slices.DeleteFunc(slices.Clone(list), func(e hubapi.Environment) bool {
		again := seen[e.Digest]
		seen[e.Digest] = true
		return again
	})
	slices.SortStableFunc(once, func(a, b hubapi.Environment) int { return cmp.Compare(b.Own, a.Own) })
	var rows [][]string
	for _, e := range once {
		rows = append(rows, []string{
			render.ShortDigest(e.Digest), units.DiskWords(e.Own), units.DiskWords(e.Size), render.Ago(e.Used, now),
			strings.Join(names[e.Digest], ", "),
		})
	}
	return rows
}

// elsewhere says where an environment is beside the service's own directory.
func elsewhere(d hubapi.EnvironmentDetails) [][2]string {
	var out [][2]string
	for _, c := range d.Copies {
		words := "not yet: " + c.Waits
		if c.Stored != nil {
			words = "since " + c.Stored.Local().Format(time.DateTime)
		}
		out = append(out, [2]string{"copy in " + c.Store, words})
	}
	return append(out, [2]string{"published", strings.Join(d.Published, ", ")})
}

// architectureFlag adds the flag that chooses among what a name has for several architectures.
func architectureFlag(c *cobra.Command, architecture *string) {
	c.Flags().StringVar(
		architecture, "arch", "", "for which machines, such as arm64; the service's when it is left out",
	)
}

// onArchitecture makes a reference mean the environment for an architecture.
func onArchitecture(ref, architecture string) string {
	if architecture == "" {
		return ref
	}
	return ref + "@" + architecture
}

// architectureWords says for which machines an environment is, and for which others its name has one.
func architectureWords(d hubapi.EnvironmentDetails) string {
	others := slices.DeleteFunc(slices.Clone(d.Architectures), func(a string) bool { return a == d.Architecture })
	if len(others) == 0 {
		return d.Architecture
	}
	return d.Architecture + "; the name has " + strings.Join(others, ", ") + " too (--arch)"
}
