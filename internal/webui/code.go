package webui

import (
	"maps"
	"regexp"
	"slices"

	"slipway/internal/units"
)

// cellFile is the input file that has a notebook's cell.
const cellFile = "cell.py"

// payload is what a job runs: the name of its file, and its text. No text: nothing is to be shown.
type payload struct{ CodeName, Code, CodeNote string }

// payloadOf returns what a job runs: a cell with the line above it that submits it again.
func (s single) payloadOf(name, text string) payload {
	if text == "" || name != cellFile {
		return payload{CodeName: name, Code: text}
	}
	return payload{name, s.magic() + "\n" + text, "It is a cell: paste it into a notebook."}
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
