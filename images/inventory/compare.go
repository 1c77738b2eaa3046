package inventory

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Difference is what one environment has other than another.
type Difference struct {
	Added   []Package    `json:"added,omitempty"`
	Removed []Package    `json:"removed,omitempty"`
	Changed []Change     `json:"changed,omitempty"` // other versions
	Facts   []Fact       `json:"facts,omitempty"`   // about the environment as a whole
	Files   *FileChanges `json:"files,omitempty"`   // nil: the trees were not compared
}

// Change is a package of which both have another version, build or commit.
type Change struct {
	Old Package `json:"old"`
	New Package `json:"new"`
}

// Fact is a property that differs.
type Fact struct {
	What string `json:"what"`          // "base", "system", "python", "cuda", "least driver", "git /opt/analysis", "kernel ana"
	Old  string `json:"old,omitempty"` // empty: it had none
	New  string `json:"new,omitempty"` // empty: it has none
}

// Equal reports whether nothing differs.
func (d Difference) Equal() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+len(d.Facts) == 0 && (d.Files == nil || d.Files.none())
}

// Compare returns what now has other than old. A Python package that conda or the distribution installed is told of
// once, as theirs.
func Compare(old, now Inventory) Difference {
	var d Difference
	before, after := groups(old.Packages), groups(now.Packages)
	for key, a := range before {
		d.group(a, after[key])
	}
	for key, b := range after {
		if len(before[key]) == 0 {
			d.group(nil, b)
		}
	}
	slices.SortFunc(d.Added, comparePackages)
	slices.SortFunc(d.Removed, comparePackages)
	slices.SortFunc(
		d.Changed,
		func(a, b Change) int { return cmp.Or(comparePackages(a.Old, b.Old), comparePackages(a.New, b.New)) },
	)
	d.Facts = facts(old, now)
	return d
}

// pythonDir is the part of a path that changes with the interpreter, while the package stays the same to people.
var pythonDir = regexp.MustCompile(`/python\d+\.\d+t?/`)

type groupKey struct {
	manager                  Manager
	name, path, architecture string
}

// groups sorts packages by what makes them the same one in another environment. Spack's prefixes are named by content,
// so their path says nothing.
func groups(list []Package) map[groupKey][]Package {
	out := make(map[groupKey][]Package, len(list))
	for _, p := range list {
		if p.Manager == Pip && (p.Installer == string(Conda) || p.Installer == string(Apt)) {
			continue
		}
		k := groupKey{p.Manager, normal(p), pythonDir.ReplaceAllString(p.Path, "/python/"), p.Architecture}
		if p.Manager == Spack {
			k.path = ""
		}
		out[k] = append(out[k], p)
	}
	return out
}

// group pairs the packages of one key: first those that are equal, then the rest in order.
func (d *Difference) group(old, now []Package) {
	old, now = slices.Clone(old), slices.Clone(now)
	now = slices.DeleteFunc(now, func(p Package) bool {
		at := slices.IndexFunc(old, func(o Package) bool { return sameRelease(o, p) })
		if at >= 0 {
			old = slices.Delete(old, at, at+1)
		}
		return at >= 0
	})
	n := min(len(old), len(now))
	for i := range n {
		d.Changed = append(d.Changed, Change{Old: old[i], New: now[i]})
	}
	d.Removed, d.Added = append(d.Removed, old[n:]...), append(d.Added, now[n:]...)
}

func sameRelease(a, b Package) bool {
	return a.Version == b.Version && a.Build == b.Build && a.Commit == b.Commit && a.Editable == b.Editable
}

func facts(old, now Inventory) []Fact {
	var out []Fact
	fact := func(what, a, b string) {
		if a != b {
			out = append(out, Fact{what, a, b})
		}
	}
	a, _ := old.Default()
	b, _ := now.Default()
	fact("base", old.Base, now.Base)
	fact("system", first(old.System.Name, old.System.ID), first(now.System.Name, now.System.ID))
	fact("python", a.Version, b.Version)
	if a.Version == b.Version {
		fact("python", a.Path, b.Path)
	}
	fact("cuda", cudaOf(old).Version, cudaOf(now).Version)
	fact("least driver", cudaOf(old).LeastDriver, cudaOf(now).LeastDriver)
	keyed(words(old.Conda, condaWords), words(now.Conda, condaWords), fact)
	keyed(words(old.Git, gitWords), words(now.Git, gitWords), fact)
	keyed(words(old.Kernels, kernelWords), words(now.Kernels, kernelWords), fact)
	return out
}

func cudaOf(i Inventory) CUDA {
	if i.CUDA == nil {
		return CUDA{}
	}
	return *i.CUDA
}

func words[T any](list []T, of func(T) (key, value string)) map[string]string {
	out := make(map[string]string, len(list))
	for _, x := range list {
		key, value := of(x)
		out[key] = value
	}
	return out
}

func condaWords(p Prefix) (key, value string) { return "conda " + p.Path, cmp.Or(p.Name, "yes") }

func gitWords(c Checkout) (key, value string) {
	return "git " + c.Path, strings.TrimSpace(
		strings.Join([]string{c.Commit[:min(len(c.Commit), 12)], c.Branch, string(c.State)}, " "),
	)
}

func kernelWords(k Kernel) (key, value string) { return "kernel " + k.Path, cmp.Or(k.Display, k.Name) }

// keyed tells of what two maps have under a key, in the order of keys.
func keyed(old, now map[string]string, fact func(what, a, b string)) {
	keys := make([]string, 0, len(old)+len(now))
	for k := range old {
		keys = append(keys, k)
	}
	for k := range now {
		if _, both := old[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		fact(k, old[k], now[k])
	}
}
