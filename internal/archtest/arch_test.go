package archtest

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestHouse(t *testing.T) {
	tree := house(t)
	packages, err := sources(tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 10 {
		t.Fatalf("found the packages %v only", sorted(packages))
	}
	all, err := texts(tree)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	faults := slices.Concat(importFaults(packages, rules()), reachFaults(packages), styleFaults(packages), sizeFaults(packages), waitFaults(packages, excepted()), textFaults(all),
		wordFaults(all), roomFaults(entries))
	for _, f := range faults {
		t.Error(f)
	}
}

// importFaults finds imports without a rule that allows them.
func importFaults(packages map[string][]source, rules map[string]rule) (faults []string) {
	for _, dir := range sorted(packages) {
		r, ok := rules[dir]
		if !ok {
			faults = append(faults, fmt.Sprintf("package %s has no row in rules(): say what it may import", dir))
			continue
		}
		for _, s := range packages[dir] {
			allowed := slices.Concat(r.own, r.outside)
			if s.test {
				allowed = slices.Concat(allowed, r.tests, everywhere(), []string{dir})
			}
			for _, i := range s.imports {
				if !allowedBy(allowed, i) {
					faults = append(faults, fmt.Sprintf("%s imports %s: no rule allows that", s.path, i))
				}
			}
		}
	}
	return faults
}

func allowedBy(allowed []string, imported string) bool {
	if dir, ok := inModule(imported); ok {
		return slices.Contains(allowed, dir)
	}
	first, _, _ := strings.Cut(imported, "/")
	if imported != "C" && !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(allowed, func(a string) bool { return imported == a || strings.HasPrefix(imported, a+"/") })
}

// inModule returns the directory of a package of this module.
func inModule(imported string) (dir string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// reachFaults finds what never() forbids, through any number of packages.
func reachFaults(packages map[string][]source) (faults []string) {
	for _, n := range never() {
		if way := route(packages, n.from, n.to); way != nil {
			faults = append(faults, fmt.Sprintf("%s: %s", strings.Join(way, " -> "), n.why))
		}
	}
	return faults
}

// route finds the shortest way from a package to an import, tests left out; nil when there is none.
func route(packages map[string][]source, from, to string) []string {
	cameFrom := map[string]string{from: ""}
	for line := []string{from}; len(line) > 0; line = line[1:] {
		at := line[0]
		for _, i := range importsOf(packages[at]) {
			dir, own := inModule(i)
			if own && dir == to || !own && (i == to || strings.HasPrefix(i, to+"/")) {
				way := []string{to}
				for ; at != ""; at = cameFrom[at] {
					way = append(way, at)
				}
				slices.Reverse(way)
				return way
			}
			if _, seen := cameFrom[dir]; own && !seen {
				cameFrom[dir] = at
				line = append(line, dir)
			}
		}
	}
	return nil
}

// importsOf returns what a package imports, tests left out.
func importsOf(sources []source) (imports []string) {
	for _, s := range sources {
		if !s.test {
			imports = append(imports, s.imports...)
		}
	}
	return imports
}

// styleFaults finds packages without one comment that says what they are for, and init functions.
func styleFaults(packages map[string][]source) (faults []string) {
	for _, dir := range sorted(packages) {
		docs := 0
		for _, s := range packages[dir] {
			if s.doc && !s.test {
				docs++
			}
			if s.inits {
				faults = append(faults, s.path+" has func init: make what it makes where it is used")
			}
		}
		if docs != 1 {
			faults = append(faults, fmt.Sprintf("package %s has %d package comments, want 1", dir, docs))
		}
	}
	return faults
}

// sizeLimit is the most lines of a package below hubapi, tests left out: more are several rooms.
const sizeLimit = 4000

// sizeFaults finds packages below hubapi that are too large for a reader.
func sizeFaults(packages map[string][]source) (faults []string) {
	for _, dir := range sorted(packages) {
		lines := 0
		for _, s := range packages[dir] {
			if !s.test {
				lines += s.set.File(s.file.Pos()).LineCount()
			}
		}
		if strings.HasPrefix(dir+"/", "hubapi/") && lines > sizeLimit {
			faults = append(faults, fmt.Sprintf("package %s has %d lines, want at most %d: make rooms of it", dir, lines, sizeLimit))
		}
	}
	return faults
}

// elsewhere matches what is true on one machine or behind one mirror only: package registries come from the host's own
// configuration, and paths from flags.
var elsewhere = regexp.MustCompile(`https?://[a-zA-Z0-9.-]*(debian|golang|pypi|pythonhosted|npmjs)|(^|[^a-zA-Z0-9_.}/-])/wor[k]/`)

func textFaults(texts map[string]string) (faults []string) {
	for _, name := range sorted(texts) {
		for i, line := range strings.Split(texts[name], "\n") {
			if m := elsewhere.FindString(line); m != "" {
				faults = append(faults, fmt.Sprintf("%s:%d names %q: nothing in the tree names a registry's host or a path of one machine", name, i+1, m))
			}
		}
	}
	return faults
}

func roomFaults(entries []fs.DirEntry) (faults []string) {
	for _, e := range entries {
		built := strings.HasSuffix(e.Name(), ".test") || strings.HasSuffix(e.Name(), ".out") || strings.HasSuffix(e.Name(), "_cache")
		if !built && !slices.Contains(rooms(), e.Name()) {
			faults = append(faults, fmt.Sprintf("%s in the root: the house has no such room", e.Name()))
		}
	}
	return faults
}
