package inventory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// HomePackage is a Python package in a user's home. It is in the session, and will be missing in a job.
type HomePackage struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Python   string `json:"python"`             // "3.13": the interpreters that see it
	Path     string `json:"path"`               // directory, below the home
	Editable string `json:"editable,omitempty"` // directory of its sources
	Used     bool   `json:"used"`               // whether the environment's own interpreter imports it
	Shadows  string `json:"shadows,omitempty"`  // version of the environment's package that it hides
}

// The bounds of what is read of a home.
const (
	maxSites        = 64
	maxHomePackages = 5000
)

// HomePackages lists the Python packages in a home that pip installed for its user. The home is rooted at the user's
// directory, and its opener must follow no link out of it and wait for no fifo: its content is hers.
func HomePackages(home fs.FS, i Inventory) ([]HomePackage, error) {
	const lib = ".local/lib"
	dirs, err := names(home, lib, maxSites)
	if err != nil {
		return nil, err
	}
	var out []HomePackage
	for _, dir := range dirs {
		version, ok := strings.CutPrefix(dir, "python")
		if !ok || !pythonProgram.MatchString(dir) {
			continue
		}
		list, err := homeSite(home, path.Join(lib, dir, "site-packages"), version)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	relate(out, i)
	slices.SortFunc(out, func(a, b HomePackage) int {
		return strings.Compare(a.Path+"\x00"+normalName(a.Name), b.Path+"\x00"+normalName(b.Name))
	})
	return out, nil
}

// names lists up to limit names of a directory, none when it is not there.
func names(home fs.FS, dir string, limit int) ([]string, error) {
	f, err := home.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s in the home: %w", dir, err)
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, nil // a file of that name: there are no packages
	}
	list, err := d.ReadDir(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list %s in the home: %w", dir, err)
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out, nil
}

func homeSite(home fs.FS, site, version string) ([]HomePackage, error) {
	const perPackage = 8 // entries that a package commonly has, and more
	list, err := names(home, site, perPackage*maxHomePackages)
	if err != nil {
		return nil, err
	}
	var out []HomePackage
	for _, name := range list {
		p := HomePackage{Python: version, Path: text(site)}
		if len(out) < maxHomePackages && homePackage(home, path.Join(site, name), &p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// homePackage reads what lies under one name, and reports whether it is a package.
func homePackage(home fs.FS, at string, p *HomePackage) bool {
	meta := at
	switch path.Ext(at) {
	case ".dist-info":
		meta = at + "/METADATA"
		p.Editable = parseDirectURL(homeFile(home, at+"/direct_url.json")).editable
	case ".egg-info":
		if s, err := fs.Stat(home, at); err == nil && s.IsDir() {
			meta = at + "/PKG-INFO"
		}
	case ".egg-link":
		p.Name, p.Version = strings.TrimSuffix(path.Base(at), ".egg-link"), "unknown"
		p.Editable = text(parseEggLink(homeFile(home, at)))
		p.Name = word(p.Name)
		return p.Editable != ""
	default:
		return false
	}
	m, ok := parseMetadata(homeFile(home, meta))
	p.Name, p.Version = m.name, m.version
	return ok
}

// homeFile returns the beginning of a regular file, nothing of all else.
func homeFile(home fs.FS, name string) []byte {
	f, err := home.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if s, err := f.Stat(); err != nil || !s.Mode().IsRegular() {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, headLimit))
	if err != nil {
		return nil
	}
	return b
}

// NotIn returns those of a home's packages that no interpreter at prefixes has in the same version; Shadows is the
// other version that one has. root is the root of the tree in which the prefixes lie, as absolute paths.
func NotIn(list []HomePackage, root fs.FS, prefixes []string) []HomePackage {
	there := map[string][]string{} // versions, by interpreter and name
	read := map[string]bool{}
	var out []HomePackage
	for _, p := range list {
		if !read[p.Python] {
			read[p.Python] = true
			versionsAt(root, prefixes, p.Python, there)
		}
		versions := there[p.Python+" "+normalName(p.Name)]
		if slices.Contains(versions, p.Version) {
			continue
		}
		if len(versions) > 0 {
			p.Shadows = versions[0]
		}
		out = append(out, p)
	}
	return out
}

// versionsAt adds what the interpreters of one version at prefixes import, in their order.
func versionsAt(root fs.FS, prefixes []string, python string, there map[string][]string) {
	for _, prefix := range prefixes {
		for _, site := range (Interpreter{Prefix: prefix, Version: python}).sites() {
			list, err := homeSite(root, strings.TrimPrefix(site, "/"), python)
			if err != nil {
				continue // what cannot be read cannot be imported
			}
			for _, p := range list {
				name := python + " " + normalName(p.Name)
				there[name] = append(there[name], p.Version)
			}
		}
	}
}

// relate says what the packages mean to the environment's own interpreter. A virtual environment that does not see
// packages outside it sees no home either.
func relate(list []HomePackage, i Inventory) {
	own, ok := i.Default()
	if !ok || own.Home != "" && !own.SystemSite {
		return
	}
	sites := own.sites()
	have := map[string]string{}
	for _, p := range i.Packages {
		if p.Manager == Pip && slices.Contains(sites, p.Path) {
			have[normal(p)] = p.Version
		}
	}
	for n := range list {
		h := &list[n]
		if h.Used = h.Python == minor(own.Version); h.Used {
			h.Shadows = have[normalName(h.Name)]
		}
	}
}
