package inventory

import (
	"cmp"
	"slices"
	"strings"
)

// Inventory says what is in an environment. Every list is sorted; equal trees give equal inventories.
type Inventory struct {
	Base     string        `json:"base,omitempty"`    // the base image, in the words of who asked
	System   System        `json:"system"`            // the distribution, as /etc/os-release has it
	Python   []Interpreter `json:"python,omitempty"`  // every interpreter found, the environment's own marked
	Conda    []Prefix      `json:"conda,omitempty"`   // conda's environments
	Packages []Package     `json:"packages"`          // of every manager
	RPM      string        `json:"rpm,omitempty"`     // path of an RPM database: its packages are not listed
	CUDA     *CUDA         `json:"cuda,omitempty"`    // nil: nothing of CUDA's runtime was found
	Git      []Checkout    `json:"git,omitempty"`     // checkouts with a .git
	Kernels  []Kernel      `json:"kernels,omitempty"` // Jupyter kernels that are installed
	CVMFS    []Repository  `json:"cvmfs,omitempty"`   // repositories that files lead to
	Outside  Outside       `json:"outside"`           // files of the change that belong to no package
	// Files of packages that are as in the base, while the file is not.
	Altered Listing  `json:"altered"`
	Trouble []string `json:"trouble,omitempty"` // what could not be read, and why; bounded
}

// System is the distribution.
type System struct {
	ID      string `json:"id,omitempty"`      // "debian"
	Version string `json:"version,omitempty"` // "13"
	Name    string `json:"name,omitempty"`    // "Debian GNU/Linux 13 (trixie)"
}

// Manager is the program that a package belongs to.
type Manager string

// The managers.
const (
	Pip   Manager = "pip"
	Conda Manager = "conda"
	Apt   Manager = "apt"
	Spack Manager = "spack"
	R     Manager = "r"
)

// Package is one installed package.
type Package struct {
	Manager      Manager `json:"manager"`
	Name         string  `json:"name"`
	Version      string  `json:"version"`
	Architecture string  `json:"architecture,omitempty"` // apt: "amd64"; conda: "linux-64"
	Build        string  `json:"build,omitempty"`        // conda's build string, spack's hash
	Channel      string  `json:"channel,omitempty"`      // conda; without credentials
	Installer    string  `json:"installer,omitempty"`    // pip's view: "pip", "uv", "conda"; "apt" where the distribution installed it
	Editable     string  `json:"editable,omitempty"`     // directory of a development installation
	// Where pip took it from when not an index; without credentials.
	URL     string `json:"url,omitempty"`
	Commit  string `json:"commit,omitempty"`  // of that URL, when it is a repository
	License string `json:"license,omitempty"` // as the metadata has it
	Path    string `json:"path,omitempty"`    // directory or prefix that it is installed in
	Source  string `json:"source"`            // file that says so
}

// Prefix is an environment of conda.
type Prefix struct {
	Path string `json:"path"`
	Name string `json:"name,omitempty"` // "base", or the directory's name below envs; empty: it has none
}

// Interpreter is a Python.
type Interpreter struct {
	Path    string `json:"path"`              // the program
	Version string `json:"version,omitempty"` // "3.13.5"; "3.13" where the files tell no more
	Prefix  string `json:"prefix"`            // sys.prefix
	// Of a virtual environment: directory of the interpreter that it stands on.
	Home       string `json:"home,omitempty"`
	SystemSite bool   `json:"systemSite,omitempty"` // a virtual environment that sees packages outside it
	Default    bool   `json:"default,omitempty"`    // the one that python3 is on the image's PATH
}

// CUDA says what an environment needs of a driver. Of a GPU's compute capability nothing is said: the files do not
// tell.
type CUDA struct {
	Version string `json:"version"` // the newest found: "12.8"; "12" where only the major is known
	// NVIDIA's least driver for all that was found; empty: not known for this version.
	LeastDriver string      `json:"leastDriver,omitempty"`
	Found       []CUDAFound `json:"found"` // by version, then what
}

// CUDAFound is one trace of CUDA's runtime.
type CUDAFound struct {
	Version string `json:"version"`
	What    string `json:"what"` // "torch 2.9.0+cu128", "libcudart.so.12.8.90"
	Path    string `json:"path"`
}

// State is what can be told of a checkout's tracked files.
type State string

// The states.
const (
	Clean    State = "clean"    // the tracked files are those of the commit
	Modified State = "modified" // at least one is not
	Unknown  State = "unknown"  // it cannot be told without git
)

// Checkout is a git working tree.
type Checkout struct {
	Path     string `json:"path"`
	Commit   string `json:"commit,omitempty"`   // of HEAD; empty: none yet, or not to be told
	Branch   string `json:"branch,omitempty"`   // empty: detached
	Remote   string `json:"remote,omitempty"`   // URL of origin, else of the first remote; without credentials
	State    State  `json:"state"`              // of the tracked files
	Modified int    `json:"modified,omitempty"` // tracked files that differ from the index or are gone
	Others   int    `json:"others,omitempty"`   // files that are not tracked, ignored ones among them
	Why      string `json:"why,omitempty"`      // why the state is unknown
}

// Kernel is a Jupyter kernel.
type Kernel struct {
	Name     string `json:"name"`
	Display  string `json:"display,omitempty"`
	Language string `json:"language,omitempty"`
	Program  string `json:"program,omitempty"` // the first word of its command
	Path     string `json:"path"`              // of its kernel.json
}

// Outside is what belongs to no package.
type Outside struct {
	Listing
	Bytes   int64  `json:"bytes,omitempty"`
	Largest []File `json:"largest,omitempty"` // up to 50, the largest first
}

// Listing is a number of paths and the first of them.
type Listing struct {
	Files int      `json:"files,omitempty"`
	First []string `json:"first,omitempty"` // up to 200, in byte order
}

// File is a path and its size.
type File struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// Default returns the environment's own interpreter, false when there is none.
func (i Inventory) Default() (Interpreter, bool) {
	at := slices.IndexFunc(i.Python, func(p Interpreter) bool { return p.Default })
	if at < 0 {
		return Interpreter{}, false
	}
	return i.Python[at], true
}

func comparePackages(a, b Package) int {
	return cmp.Or(strings.Compare(string(a.Manager), string(b.Manager)), strings.Compare(normal(a), normal(b)),
		strings.Compare(a.Path, b.Path), strings.Compare(
			a.Architecture, b.Architecture,
		), strings.Compare(a.Version, b.Version),
		strings.Compare(a.Source, b.Source))
}

// normal is the name that a package is known by: Python's do not tell case, '-', '_' and '.' apart.
func normal(p Package) string {
	if p.Manager != Pip {
		return p.Name
	}
	return normalName(p.Name)
}

func normalName(name string) string {
	var b strings.Builder
	gap := false
	for _, c := range []byte(strings.ToLower(name)) {
		if c == '-' || c == '_' || c == '.' {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteByte(c)
	}
	return b.String()
}
