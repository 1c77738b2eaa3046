package webui

import (
	"maps"
	"regexp"
	"slices"

	"slipway/internal/units"
)

// cellFile is the input file that has a notebook's cell.
const cellFile = "cell.py"

// IsCell reports whether it runs a notebook's cell.
func (s single) IsCell() bool { return s.CodeName == cellFile }

// Code returns what it runs: a cell with the line above it that submits it again.
func (s single) Code() string {
	if s.code == "" || !s.IsCell() {
		return s.code
	}
	return s.magic() + "\n" + s.code
}

// plainWord is what needs no quotes in a line of options.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.+:/=-]+$`)

// magic is the line that submits a cell with what this job was submitted with, as far as that can be written plainly.
func (s single) magic() string {
	line := "%%grid"
	add := func(option, value string) {
		if plainWord.MatchString(value) {
			line += " " + option + " " + value
		}
	}
	add("--name", s.Name)
	if s.Spec.Resources.CPUs > 0 {
		add("--cpus", number(s.Spec.Resources.CPUs))
	}
	if s.Spec.Resources.Memory > 0 {
		add("--mem", units.FormatMemory(s.Spec.Resources.Memory))
	}
	add("--time", TimeText(s.Spec.TimeLimit))
	if !s.Spec.GPU.None() {
		add("--gpu", s.Spec.GPU.String())
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		add("--scan", name+"="+s.Parameters[name])
	}
	return line
}
