package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"slipway/images/inventory"
	"slipway/internal/cli/render"
)

// processes looks at what the programs of a session have in use, by what the kernel tells of them. Of Python it sees
// the packages with compiled parts, which are those that break where a library is missing; %freeze in a notebook names
// the others too.
type processes struct {
	proc string // /proc
	root string // the file tree in which interpreters are looked for; empty: this one
	// A process whose files this user may not see says nothing.
	modules map[string]map[string]bool // by interpreter
	cvmfs   map[string]bool
}

var (
	// A module is a directory or a library by itself; the name.libs beside one holds what others brought for it.
	packageFile = regexp.MustCompile(`^(.*)/lib(?:64)?/python3(?:\.\d+)?/(?:site|dist)-packages/([^/.]+)(?:/|(?:\.[^/]+)?\.so$)`)
	cvmfsFile   = regexp.MustCompile(`/cvmfs/([a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+)(?:/|:|$)`)
)

// inUse returns the modules by interpreter and the CVMFS repositories that the session's programs use.
func inUse() (imported map[string][]string, cvmfs []string) {
	p := &processes{proc: "/proc", modules: map[string]map[string]bool{}, cvmfs: map[string]bool{}}
	p.look()
	imported = map[string][]string{}
	for python, names := range p.modules {
		imported[python] = slices.Sorted(maps.Keys(names))
	}
	return imported, slices.Sorted(maps.Keys(p.cvmfs))
}

func (p *processes) look() {
	files, _ := filepath.Glob(filepath.Join(p.proc, "[0-9]*"))
	for _, dir := range files {
		if f, err := os.Open(filepath.Join(dir, "maps")); err == nil {
			p.maps(f)
			_ = f.Close()
		}
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil {
			p.environ(string(env))
		}
	}
}

// maps reads which files a process has mapped: an address, four more fields, and the path.
func (p *processes) maps(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		_, file, found := strings.Cut(lines.Text(), " /")
		if !found || strings.HasSuffix(file, " (deleted)") {
			continue
		}
		file = "/" + file
		if m := cvmfsFile.FindStringSubmatch(file); m != nil {
			p.cvmfs[m[1]] = true
		}
		if m := packageFile.FindStringSubmatch(file); m != nil {
			p.module(p.interpreter(m[1]), m[2])
		}
	}
}

// environ looks at the variables by which programs and modules are found.
func (p *processes) environ(text string) {
	for variable := range strings.SplitSeq(text, "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"}, name) {
			continue
		}
		for _, m := range cvmfsFile.FindAllStringSubmatch(value, -1) {
			p.cvmfs[m[1]] = true
		}
	}
}

// interpreter is that of a prefix, the image's own where the prefix has none: /usr/local has packages of the
// /usr/bin/python3 of Debian.
func (p *processes) interpreter(prefix string) string {
	python := prefix + "/bin/python3"
	if _, err := os.Lstat(p.root + python); err != nil {
		return ""
	}
	return python
}

// The bounds of what is told; the service refuses more.
const (
	mostInterpreters = 8
	mostModules      = 300
)

func (p *processes) module(python, name string) {
	names, known := p.modules[python]
	if !known && len(p.modules) == mostInterpreters || len(names) == mostModules || strings.HasPrefix(name, "_") {
		return
	}
	if !known {
		names = map[string]bool{}
		p.modules[python] = names
	}
	names[name] = true
}

// prefixes are those of the Pythons on a PATH, but for what lies in the home.
func prefixes(search, home string) []string {
	var out []string
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) || strings.HasPrefix(dir, filepath.Clean(home)+"/") {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "python3")); err == nil {
			out = append(out, filepath.Dir(filepath.Clean(dir)))
		}
	}
	return out
}

// namedPackages is how many packages a warning names.
const namedPackages = 8

// warnOfHome tells of Python packages in the user's home that the interpreters on a PATH do not have too: they are in
// no environment.
func warnOfHome(w io.Writer, home, search string) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return
	}
	defer root.Close()
	list, err := inventory.HomePackages(root.FS(), inventory.Inventory{})
	if err == nil {
		list = inventory.NotIn(list, os.DirFS("/"), prefixes(search, home))
	}
	if err != nil || len(list) == 0 {
		return
	}
	var words, names []string
	for _, p := range list[:min(len(list), namedPackages)] {
		word := p.Name + " " + p.Version
		if p.Shadows != "" {
			word += " (the environment has " + p.Shadows + ")"
		}
		words, names = append(words, render.Printable(word)), append(names, render.Printable(p.Name))
	}
	told := strings.Join(words, ", ")
	if n := len(list) - len(words); n > 0 {
		told += fmt.Sprintf(" and %d more", n)
	}
	fmt.Fprintf(w, "freeze: in your home and not in the environment, so a job that runs without your home would miss: %s;\n"+
		"  what it needs: pip install --no-user --ignore-installed %s\n", told, strings.Join(names, " "))
}
