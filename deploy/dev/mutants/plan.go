package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// plan is a package and the files in it that are changed.
type plan struct {
	dir   string
	files []string // without .go; nil: all
}

// fields are the words of each line of a file that is neither empty nor a comment.
func fields(path string) (lines [][]string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			lines = append(lines, words)
		}
	}
	return lines, nil
}

func readPlan(path string) (plans []plan, err error) {
	lines, err := fields(path)
	for _, words := range lines {
		p := plan{dir: words[0]}
		p.files = append(p.files, words[1:]...)
		plans = append(plans, p)
	}
	return plans, err
}

// sources are the package's files that are changed.
func (p plan) sources() (paths []string, err error) {
	for _, name := range p.files {
		paths = append(paths, filepath.Join(p.dir, name+".go"))
	}
	if p.files == nil {
		if paths, err = filepath.Glob(filepath.Join(p.dir, "*.go")); err != nil {
			return nil, err
		}
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	}
	return paths, nil
}

// mutants are the changes to all of the package's sources.
func (p plan) mutants() (all []mutant, err error) {
	paths, err := p.sources()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("of the plan: %w", err)
		}
		of, err := changes(path, source)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}
