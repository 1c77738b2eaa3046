package inventory

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"slipway/images/squashfs"
)

const (
	dpkgStatus = "/var/lib/dpkg/status"
	dpkgParts  = "/var/lib/dpkg/status.d" // where images without dpkg have one file a package
	dpkgLists  = "/var/lib/dpkg/info"
	debianSite = "/usr/lib/python3/dist-packages" // the distribution's alone, by its own policy
)

// packages lists those of every manager.
func (l *looker) packages(ctx context.Context, found finds) {
	l.apt(ctx)
	for _, c := range found.conda {
		l.conda(ctx, c)
	}
	l.prefixes(found.condaDirs)
	for _, d := range found.dists {
		l.dist(ctx, d)
	}
	for _, s := range found.spack {
		l.spack(ctx, s)
	}
	for _, s := range found.spackDBs {
		l.spackDB(ctx, s)
	}
	for _, d := range found.r {
		l.r(ctx, d)
	}
	for _, db := range []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm"} {
		for _, file := range []string{"rpmdb.sqlite", "Packages.db", "Packages"} {
			if at := path.Join(db, file); l.out.RPM == "" && isFile(l.tree.lookup(at)) {
				l.out.RPM = at
			}
		}
	}
}

func (l *looker) apt(ctx context.Context) {
	sources := []place{{dpkgStatus, l.tree.lookup(dpkgStatus)}}
	if dir := l.tree.lookup(dpkgParts); dir != nil {
		for _, e := range dir.Children {
			if path.Ext(e.Name) != ".md5sums" && len(sources) < maxFinds {
				sources = append(sources, place{dpkgParts + "/" + e.Name, e.Node})
			}
		}
	}
	for i, s := range sources {
		if s.node == nil || l.reuse(s.path) {
			continue
		}
		b, err := l.whole(ctx, s)
		if err != nil {
			l.trouble(s.path, err)
			continue
		}
		if i > 0 { // these say no Status: what has a file is installed
			b = append([]byte("Status: install ok installed\n"), b...)
		}
		for _, p := range parseDpkgStatus(b) {
			p.Source = text(s.path)
			l.add(p)
		}
	}
}

func (l *looker) conda(ctx context.Context, at place) {
	if l.reuse(at.path) {
		return
	}
	b, err := l.whole(ctx, at)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	p, files, err := parseConda(b)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	p.Source, p.Path = text(at.path), text(path.Dir(path.Dir(at.path)))
	if l.kept += len(files); l.kept <= maxKept {
		l.files[at.path] = files
	}
	l.add(p)
}

// prefixes names conda's environments. The one that has conda itself is the base.
func (l *looker) prefixes(dirs []place) {
	for _, d := range dirs {
		prefix := path.Dir(d.path)
		hasConda := slices.ContainsFunc(l.out.Packages, func(p Package) bool {
			return p.Manager == Conda && p.Name == "conda" && p.Path == text(prefix)
		})
		l.out.Conda = append(l.out.Conda, Prefix{Path: text(prefix), Name: condaName(prefix, hasConda)})
	}
}

// dist adds a Python distribution: a dist-info or egg-info directory, an egg-info file, or a link to a source tree.
func (l *looker) dist(ctx context.Context, at place) {
	site := path.Dir(at.path)
	switch {
	case path.Ext(at.path) == ".egg-link":
		l.eggLink(ctx, at)
	case at.node.Kind != squashfs.Dir:
		l.pip(ctx, at, Package{Path: text(site)})
	case path.Ext(at.path) == ".dist-info":
		l.pip(ctx, child(at, "METADATA"), Package{Path: text(site)})
	default:
		l.pip(ctx, child(at, "PKG-INFO"), Package{Path: text(site)})
	}
}

func child(at place, name string) place {
	return place{at.path + "/" + name, at.node.Child(name)}
}

// pip adds what a metadata file tells of. A directory without one, as an interrupted installation leaves it, is no
// package.
func (l *looker) pip(ctx context.Context, meta place, p Package) {
	if meta.node == nil {
		return
	}
	dir := path.Dir(meta.path)
	installer, direct := dir+"/INSTALLER", dir+"/direct_url.json"
	if p.Editable == "" && l.reuse(meta.path, installer, direct) {
		return
	}
	b, err := l.read(ctx, meta, headLimit)
	if err != nil {
		l.trouble(meta.path, err)
		return
	}
	m, ok := parseMetadata(b)
	if !ok {
		l.trouble(meta.path, errors.New("no name or no version"))
		return
	}
	p.Manager, p.Name, p.Version, p.License, p.Source = Pip, m.name, m.version, m.license, text(meta.path)
	if path.Ext(dir) == ".dist-info" {
		p.Installer = l.oneLine(ctx, installer)
		l.direct(ctx, direct, &p)
	}
	if strings.HasPrefix(meta.path, debianSite+"/") && p.Installer != "pip" {
		p.Installer = string(Apt)
	}
	l.add(p)
}

func (l *looker) oneLine(ctx context.Context, name string) string {
	b, err := l.read(ctx, place{name, l.tree.lookup(name)}, 256)
	if err != nil {
		return ""
	}
	return word(string(b))
}

func (l *looker) direct(ctx context.Context, name string, p *Package) {
	n := l.tree.lookup(name)
	if n == nil {
		return
	}
	b, err := l.whole(ctx, place{name, n})
	if err != nil {
		l.trouble(name, err)
		return
	}
	o := parseDirectURL(b)
	p.Editable, p.URL, p.Commit = o.editable, o.url, o.commit
}

// eggLink follows a development installation of old to the metadata beside its sources.
func (l *looker) eggLink(ctx context.Context, at place) {
	b, err := l.read(ctx, at, headLimit)
	dir := parseEggLink(b)
	src := l.tree.lookup(dir)
	if err != nil || dir == "" || src == nil {
		l.trouble(at.path, errors.New("its sources are not in the image"))
		return
	}
	for _, e := range src.Children {
		if l.full || l.left < 0 {
			return // any number of links may lead to a directory with any number of these
		}
		if path.Ext(e.Name) == ".egg-info" && e.Node.Kind == squashfs.Dir {
			l.pip(
				ctx, child(place{dir + "/" + e.Name, e.Node}, "PKG-INFO"),
				Package{Path: text(path.Dir(at.path)), Editable: text(dir)},
			)
		}
	}
}

func (l *looker) spack(ctx context.Context, at place) {
	if l.reuse(at.path) {
		return
	}
	b, err := l.whole(ctx, at)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	p, err := parseSpackSpec(b)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	p.Source, p.Path = text(at.path), text(path.Dir(path.Dir(at.path)))
	l.add(p)
}

// spackDB adds what a store's database has beyond the prefixes that speak for themselves.
func (l *looker) spackDB(ctx context.Context, at place) {
	b, err := l.whole(ctx, at)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	list, err := parseSpackIndex(b)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	for _, p := range list {
		if n := l.tree.lookup(p.Path); n != nil && l.tree.lookup(p.Path+"/.spack/spec.json") == nil {
			p.Source = text(at.path)
			l.add(p)
		}
	}
}

func (l *looker) r(ctx context.Context, at place) {
	if l.reuse(at.path) {
		return
	}
	b, err := l.read(ctx, at, headLimit)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	p, ok := parseDescription(b)
	if !ok {
		l.trouble(at.path, errors.New("no name or no version"))
		return
	}
	p.Source, p.Path = text(at.path), text(path.Dir(path.Dir(at.path)))
	l.add(p)
}
