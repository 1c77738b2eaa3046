package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/images/inventory"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// showOptions are the flags of `slipway envs show`.
type showOptions struct {
	packages, strip bool
	architecture    string
}

func envShowCommand(env Env, asJSON *bool) *cobra.Command {
	o := showOptions{}
	c := &cobra.Command{
		Use: "show REF", Short: "Show all that is known of one environment", Args: exactly(1, whichEnvironment),
		Example: "  slipway envs show analysis:v1 --packages",
		Long: "Show all that is known of one environment: where it comes from, what is in it, what was left out and why. Just after a\n" +
			"freeze it waits until the image is signed and what is in it is found out.\n\n" + reference,
		RunE: func(c *cobra.Command, args []string) error {
			return watched(c, env, func(ctx context.Context, env Env) error {
				return runEnvShow(ctx, env, onArchitecture(args[0], o.architecture), o, *asJSON)
			})
		},
	}
	addWatch(c)
	architectureFlag(c, &o.architecture)
	c.Flags().BoolVar(&o.packages, "packages", false, "list every package")
	c.Flags().BoolVar(&o.strip, "strip", false, "list the rules of what is left out, with reasons")
	return c
}

func runEnvShow(ctx context.Context, env Env, ref string, o showOptions, asJSON bool) error {
	client, err := connectFor(env, ref)
	if err != nil {
		return err
	}
	d, err := client.EnvironmentDetails(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(d)
	}
	var in inventory.Inventory
	if err := json.Unmarshal(d.Inventory, &in); err != nil {
		return fmt.Errorf("read what is in the environment: %w", err)
	}
	return showEnvironment(env.Stdout, d, in, o)
}

func showEnvironment(w io.Writer, d hubapi.EnvironmentDetails, in inventory.Inventory, o showOptions) error {
	p := &render.Page{W: w, Err: render.Pairs(w, summary(d, in))}
	p.Section("Imported by kernels, and tried in the image alone:", importLines(d.Imports))
	p.Section("CVMFS repositories that must be mounted where it runs:", repositories(d.CVMFS))
	p.Section("Git checkouts:", checkouts(in.Git))
	p.Section(outsideTitle(in.Outside), outsideLines(in.Outside))
	p.Section(
		"Files of packages that were changed ("+units.Grouped(int64(in.Altered.Files))+"):",
		units.Bounded(in.Altered.First, in.Altered.Files),
	)
	p.Section("Could not be read:", in.Trouble)
	p.Section("Here by the owner's word, though they look like secrets:", d.Allowed)
	p.Section("Not in it, because it was mounted in the session:", d.Mounts)
	p.Section("Not in it, because they are sockets of running programs:", units.Bounded(d.Sockets, len(d.Sockets)))
	p.Section("Not in it, because they are devices of a host:", units.Bounded(d.Devices, len(d.Devices)))
	p.Section("Lost, because an image cannot hold it:", losses(d.Losses))
	p.Section("Lost, because the engine does not give it out:", d.Losses.Others)
	p.Section("Made for Apptainer:", units.Bounded(d.Added, len(d.Added)))
	p.Section("Parts, as registries keep them:", blobLines(d.Parts))
	if o.strip {
		p.Section("Left out:", stripLines(d.Strip))
	}
	if o.packages {
		p.Section("Packages:", packageLines(in.Packages))
	}
	return p.Err
}

func summary(d hubapi.EnvironmentDetails, in inventory.Inventory) [][2]string {
	owner := d.Owner
	if d.Mine {
		owner += " (you)"
	}
	made := d.Created.Local().Format(time.DateTime)
	if d.Session != "" {
		made += " from session " + d.Session
	}
	pairs := [][2]string{
		{"digest", d.Digest}, {"name", d.Name}, {"tag", tagWords(d.Environment)}, {"also named", otherNames(d)},
		{"note", d.Note}, {"owner", owner}, {"shared with", sharedWith(d.Share)},
		{"made", made}, {"last used", date(d.Used)}, {"size", sizes(d)}, {"base", d.Base}, {"system", in.System.Name},
		{"architecture", architectureWords(d)},
		{"python", defaultPython(in)}, {"packages", managers(in.Packages)}, {"kernels", kernels(in.Kernels)},
		{"CUDA", cudaWords(in.CUDA)},
		{"imports", importWords(d.Imports)},
	}
	if in.RPM != "" {
		pairs = append(pairs, [2]string{"rpm", "its packages are not listed: " + in.RPM})
	}
	pairs = append(pairs, [2]string{
		"left out", fmt.Sprintf("what %s name (--strip lists them)", units.Count(int64(len(d.Strip)), "rule", "rules")),
	})
	pairs = append(
		pairs, [2]string{"image", d.SIF.Digest + ", " + units.DiskWords(d.SIF.Size) + " with its signatures"},
	)
	return append(append(pairs, seals(d.Signers, d.Statements)...), elsewhere(d)...)
}

// otherNames lists the further names of an environment.
func otherNames(d hubapi.EnvironmentDetails) string {
	this := strings.TrimSuffix(d.Name+":"+d.Tag, ":")
	return strings.Join(
		slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool { return name == this && !d.Moved }), ", ",
	)
}

// seals says who has signed an image, and who says where it comes from.
func seals(signers []string, statements []hubapi.Statement) [][2]string {
	signed := strings.Join(signers, ", ")
	if signed == "" {
		signed = "nobody"
	}
	out := [][2]string{{"signed by", signed}}
	if len(statements) == 0 {
		return append(out, [2]string{"stated", "nothing, by nobody whose key is trusted here"})
	}
	for _, s := range statements {
		out = append(out, [2]string{"stated", statementWords(s)})
	}
	return out
}

func statementWords(s hubapi.Statement) string {
	by := "this site"
	if s.Site != "" {
		by = "the site " + s.Site
	}
	words := fmt.Sprintf("%s: frozen by %s", by, s.User)
	if len(s.Names) > 0 {
		words += " as " + strings.Join(s.Names, ", ")
	}
	if s.Session != "" {
		words += fmt.Sprintf(" from the %s session %s", s.Kind, s.Session)
	}
	return words + fmt.Sprintf(", %s, Slipway %s", date(s.Finished), s.Version)
}

func sharedWith(s hubapi.Share) string {
	switch s.With {
	case "group":
		return "the group " + s.Group
	case "public":
		return "everybody of this service"
	}
	return "nobody"
}

func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// sizes tells an environment's own bytes from those of its base.
func sizes(d hubapi.EnvironmentDetails) string {
	for _, b := range d.Parts {
		if b.What == "base" {
			return fmt.Sprintf(
				"%s: %s own, the rest shared with all who stand on the base", units.DiskWords(d.Size),
				units.DiskWords(d.Own),
			)
		}
	}
	return units.DiskWords(d.Size) + ", all its own: the whole tree was packed"
}

func blobLines(parts []hubapi.Blob) []string {
	var out []string
	for _, b := range parts {
		out = append(out, fmt.Sprintf("%-8s  %s, %s", b.What, b.Digest, units.DiskWords(b.Size)))
	}
	return out
}

func defaultPython(in inventory.Inventory) string {
	python, ok := in.Default()
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (%s)", python.Version, python.Path)
}

// managers counts the packages of each manager.
func managers(list []inventory.Package) string {
	counts := map[inventory.Manager]int64{}
	for _, p := range list {
		counts[p.Manager]++
	}
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, units.Grouped(counts[m])+" of "+string(m))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ") + " (--packages lists them)"
}

func kernels(list []inventory.Kernel) string {
	var names []string
	for _, k := range list {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func cudaWords(c *inventory.CUDA) string {
	switch {
	case c == nil:
		return ""
	case c.LeastDriver == "":
		return c.Version + "; which driver it needs is not known"
	}
	return fmt.Sprintf("%s; needs driver %s or newer", c.Version, c.LeastDriver)
}
