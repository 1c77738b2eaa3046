package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// CVMFS is the directory in which sessions and jobs of this host find the repositories of CVMFS. They see it as /cvmfs.
type CVMFS struct {
	Path         string   `yaml:"path"`         // on this host; empty: there is none
	Repositories []string `yaml:"repositories"` // that are looked at, such as atlas.cern.ch
}

// Stack is software that a script sets up, such as a view of LCG: a kernel in JupyterLab's launcher.
type Stack struct {
	Name          string            `yaml:"name"`         // such as lcg-106
	DisplayName   string            `yaml:"display_name"` // in JupyterLab's launcher
	Setup         string            `yaml:"setup"`        // the script, as sessions see it
	Python        string            `yaml:"python"`       // the program that has ipykernel once the script has run
	Language      string            `yaml:"language"`     // that notebooks say of themselves
	Env           map[string]string `yaml:"env"`
	Logo          string            `yaml:"logo"`           // a file on this host
	Profiles      []string          `yaml:"profiles"`       // whose sessions have it; empty: of all
	AllowedGroups []string          `yaml:"allowed_groups"` // whose members have it; empty: everybody
}

func (s *Stack) setDefaults() {
	*s = Stack{Python: "python3", Language: "python"}
}

func defaultCVMFS() CVMFS { return CVMFS{Repositories: []string{}} }

var (
	repositoryName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+$`)
	stackName      = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)
	variableName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// checkCVMFS looks at what is said of CVMFS. Whether the directory is there and is mounted as it must be is for the
// service and the doctor to see.
func (c Config) checkCVMFS(p *problems) {
	d := c.Data.CVMFS
	if d.Path != "" && (!filepath.IsAbs(d.Path) || filepath.Clean(d.Path) != d.Path || d.Path == "/") {
		p.add("data.cvmfs.path", d.Path, "an absolute path such as /cvmfs, without . and .. and a slash at its end")
	}
	if d.Path == "" && len(d.Repositories) > 0 {
		p.add(
			"data.cvmfs.repositories", strings.Join(d.Repositories, " "),
			"nothing where data.cvmfs.path is empty: there is nothing to look at",
		)
	}
	for i, name := range d.Repositories {
		at := fmt.Sprintf("data.cvmfs.repositories[%d]", i)
		if len(name) > 100 || !repositoryName.MatchString(name) {
			p.add(at, name, "the name of a repository, such as atlas.cern.ch")
		} else if slices.Index(d.Repositories, name) < i {
			p.add(at, name, "each repository once")
		}
	}
}

// LogoLimit is the most bytes of a logo: it goes into every session.
const LogoLimit = 64 << 10

const mostStacks = 64 // with their logos all go into one message

func (c Config) checkStacks(p *problems) {
	names := map[string]bool{}
	if n := len(c.Data.Stacks); n > mostStacks {
		p.add("data.stacks", n, fmt.Sprintf("at most %d", mostStacks))
	}
	for i, s := range c.Data.Stacks {
		at := fmt.Sprintf("data.stacks[%d].", i)
		if !stackName.MatchString(s.Name) {
			p.add(at+"name", s.Name, "a name such as lcg-106: small letters, digits, dots, dashes and underscores")
		} else if names[s.Name] {
			p.add(at+"name", s.Name, "each name once")
		}
		names[s.Name] = true
		if s.DisplayName == "" || strings.ContainsFunc(s.DisplayName, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			p.add(at+"display_name", s.DisplayName, "what JupyterLab's launcher shows, such as LCG 106")
		}
		p.absolute(at+"setup", s.Setup)
		if s.Python == "" || s.Language == "" {
			p.add(at+"python", s.Python, "a program such as python3, and in language what it speaks")
		}
		c.checkStackAudience(at, s, p)
		checkStackFiles(at, s, p)
	}
}

func (c Config) checkStackAudience(at string, s Stack, p *problems) {
	for i, name := range s.Profiles {
		if !slices.ContainsFunc(c.Profiles, func(f Profile) bool { return f.Name == name }) {
			p.add(fmt.Sprintf("%sprofiles[%d]", at, i), name, "the name of a profile above")
		}
	}
	for i, name := range s.AllowedGroups {
		if !c.isGroup(name) {
			p.add(fmt.Sprintf("%sallowed_groups[%d]", at, i), name, someGroup)
		}
	}
}

func checkStackFiles(at string, s Stack, p *problems) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !variableName.MatchString(name) || strings.ContainsRune(s.Env[name], 0) {
			p.add(at+"env", name, "names of letters, digits and underscores, and values without zero bytes")
		}
	}
	p.logo(at+"logo", s.Logo)
}
