package inventory

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway/images/squashfs"
)

var (
	pythonProgram = regexp.MustCompile(`^python\d+\.\d+t?$`)
	threeNumbers  = regexp.MustCompile(`^\d+(\.\d+){1,2}`)
	patchVersion  = regexp.MustCompile(`(?m)^#define PY_VERSION\s+"([^"\n]{1,40})"`)
)

// defaultPath is what a shell looks in when nothing is said.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// parseVenv reads a pyvenv.cfg.
func parseVenv(b []byte) Interpreter {
	var i Interpreter
	for raw := range bytes.Lines(b) {
		key, value, _ := strings.Cut(string(raw), "=")
		switch value = word(value); strings.ToLower(strings.TrimSpace(key)) {
		case "home":
			i.Home = value
		case "version", "version_info":
			i.Version = first(i.Version, threeNumbers.FindString(value))
		case "include-system-site-packages":
			i.SystemSite = strings.EqualFold(value, "true")
		}
	}
	return i
}

// minor returns "3.13" of "3.13.5".
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// venv adds the interpreter of a virtual environment.
func (l *looker) venv(ctx context.Context, at place) {
	b, err := l.read(ctx, at, headLimit)
	if err != nil {
		l.trouble(at.path, err)
		return
	}
	i := parseVenv(b)
	i.Prefix = path.Dir(at.path)
	i.Path = path.Join(i.Prefix, "bin/python")
	l.out.Python = append(l.out.Python, i)
}

// python adds the interpreter that lies in a bin directory, unless that belongs to a virtual environment. Packages are
// known by now.
func (l *looker) python(ctx context.Context, at place) {
	prefix := path.Dir(path.Dir(at.path))
	if slices.ContainsFunc(l.out.Python, func(i Interpreter) bool { return i.Prefix == prefix && i.Home != "" }) {
		return
	}
	short := strings.TrimPrefix(path.Base(at.path), "python")
	l.out.Python = append(
		l.out.Python, Interpreter{Path: at.path, Prefix: prefix, Version: l.pythonVersion(ctx, prefix, short)},
	)
}

// pythonVersion asks the headers, then the package managers, and is content with the program's own name.
func (l *looker) pythonVersion(ctx context.Context, prefix, short string) string {
	for _, dir := range []string{"python" + short, "python" + short + "m"} { // the latter until 3.7
		header := l.tree.lookup(path.Join(prefix, "include", dir, "patchlevel.h"))
		if b, err := l.read(ctx, place{prefix, header}, headLimit); err == nil {
			if m := patchVersion.FindSubmatch(b); m != nil {
				return word(string(m[1]))
			}
		}
	}
	for _, p := range l.out.Packages {
		conda := p.Manager == Conda && p.Name == "python" && p.Path == prefix
		apt := p.Manager == Apt && p.Name == "python"+short && prefix == "/usr"
		if v := threeNumbers.FindString(p.Version); (conda || apt) && minor(v) == strings.TrimSuffix(short, "t") {
			return v
		}
	}
	return short
}

// markDefault marks what python3, else python, means on the image's PATH, and adds it when it was not found before.
func (l *looker) markDefault(search string) {
	if search == "" {
		search = defaultPath
	}
	for _, name := range []string{"python3", "python"} {
		for dir := range strings.SplitSeq(search, ":") {
			if strings.HasPrefix(dir, "/") && l.markAt(path.Join(dir, name)) {
				return
			}
		}
	}
}

func (l *looker) markAt(program string) bool {
	final, n := l.tree.resolve(program)
	if n == nil || n.Kind != squashfs.File || n.Mode&0o111 == 0 {
		return false
	}
	dir, _ := l.tree.resolve(path.Dir(program))
	at := slices.IndexFunc(l.out.Python, func(i Interpreter) bool { return i.Home != "" && i.Prefix == path.Dir(dir) })
	if at < 0 {
		at = slices.IndexFunc(l.out.Python, func(i Interpreter) bool { return i.Path == final })
	}
	if at < 0 {
		at = len(l.out.Python)
		l.out.Python = append(l.out.Python, Interpreter{Path: final, Prefix: path.Dir(path.Dir(final))})
	}
	l.out.Python[at].Default = true
	return true
}

// sites returns the directories that an interpreter imports packages from, as far as its place tells.
func (i Interpreter) sites() []string {
	v := "python" + minor(i.Version)
	out := []string{path.Join(i.Prefix, "lib", v, "site-packages"), path.Join(i.Prefix, "lib64", v, "site-packages")}
	if i.Prefix == "/usr" {
		out = append(
			out, "/usr/local/lib/"+v+"/dist-packages", "/usr/local/lib/"+v+"/site-packages",
			"/usr/lib/python3/dist-packages",
		)
	}
	if i.SystemSite {
		out = append(out, Interpreter{Prefix: path.Dir(i.Home), Version: i.Version}.sites()...)
	}
	return out
}
