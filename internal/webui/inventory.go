package webui

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// inside is what the page shows of an inventory.
type inside struct {
	System struct {
		Name string `json:"name"`
	} `json:"system"`
	Packages []pack `json:"packages"`
	Git      []struct {
		Path, Commit, Branch, Remote, State, Why string
		Modified, Others                         int
	} `json:"git"`
	Kernels []struct {
		Name, Display, Language string
	} `json:"kernels"`
	Outside struct {
		Files   int   `json:"files"`
		Bytes   int64 `json:"bytes"`
		Largest []struct {
			Path  string `json:"path"`
			Bytes int64  `json:"bytes"`
		} `json:"largest"`
	} `json:"outside"`
	Trouble []string `json:"trouble"`
	Managed []managed
}

// pack is one package.
type pack struct {
	Manager  string `json:"manager"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Editable string `json:"editable"`
	URL      string `json:"url"`
	Commit   string `json:"commit"`
}

// From says where it comes from, if not from an index.
func (p pack) From() string {
	switch {
	case p.Editable != "":
		return "editable, from " + p.Editable
	case p.Commit != "":
		return p.URL + " at " + p.Commit[:min(12, len(p.Commit))]
	default:
		return p.URL
	}
}

// packagesShown bounds the list of one manager's packages.
const packagesShown = 2000

// managed are the packages of one manager.
type managed struct {
	Manager  string
	All      int
	Packages []pack
}

// Count says how many there are.
func (m managed) Count() string { return counted(m.All, m.Manager+" package") }

// More is how many are not listed.
func (m managed) More() int { return m.All - len(m.Packages) }

// readInside reads an inventory. What cannot be read is as if nothing were known.
func readInside(inventory json.RawMessage) inside {
	var in inside
	if json.Unmarshal(inventory, &in) != nil {
		return inside{}
	}
	by := map[string]*managed{}
	for _, p := range in.Packages {
		m := by[p.Manager]
		if m == nil {
			m = &managed{Manager: p.Manager}
			by[p.Manager] = m
		}
		if m.All++; len(m.Packages) < packagesShown {
			m.Packages = append(m.Packages, p)
		}
	}
	for _, m := range by {
		in.Managed = append(in.Managed, *m)
	}
	order := func(m managed) int { return slices.Index([]string{"apt", "r", "spack", "conda", "pip"}, m.Manager) }
	slices.SortFunc(
		in.Managed, func(a, b managed) int { return cmp.Or(order(b)-order(a), strings.Compare(a.Manager, b.Manager)) },
	)
	return in
}
