package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	mostLines = 40  // of one failure
	mostBytes = 500 // of one line
)

var (
	said  = regexp.MustCompile(`^( *)[\w.-]+\.go:\d+: `)                                      // by t.Error and its like
	frame = regexp.MustCompile(`^(FAIL|PASS|ok|\?|exit status \d+|coverage: .*|\s*)(\t.*)?$`) // by go test, around a package's tests
	alarm = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE|SIG[A-Z]+: )`)     // by Go itself: all that follows is of it
)

// shown returns the first lines of a failure, indented.
func (a *attempt) shown() string {
	lines := a.ownLines()
	if len(lines) == 0 { // a program of tests that ended by itself, or what was cut off
		lines = strings.Split(strings.TrimSpace(a.output.String()), "\n")
	}
	left := len(lines) - mostLines
	lines = lines[:min(len(lines), mostLines)]
	if a.cut {
		lines = append([]string{"it had not ended when its program did"}, lines...)
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "    %s\n", short(line))
	}
	if left > 0 {
		fmt.Fprintf(&b, "    ... and %d lines more\n", left)
	}
	return b.String()
}

// ownLines returns what a test itself said, without the framing of go test and what the programs that it runs have
// printed. A package says what stands outside its tests, in whatever form: what TestMain finds left over is nowhere
// else.
func (a *attempt) ownLines() []string {
	if !a.whole {
		return a.messages()
	}
	lines := strings.Split(strings.TrimSpace(a.output.String()), "\n")
	return slices.DeleteFunc(lines, frame.MatchString)
}

func (a *attempt) messages() (own []string) {
	indent := -1 // of the message that goes on
	for line := range strings.Lines(a.output.String()) {
		line = strings.TrimRight(line, "\r\n")
		switch m := said.FindStringSubmatch(line); {
		case m != nil:
			indent = len(m[1])
		case alarm.MatchString(line):
			indent = -2 // to the end
		case indent == -2:
		case indent < 0 || strings.TrimSpace(line) != "" && !strings.HasPrefix(line, strings.Repeat(" ", indent+4)):
			indent = -1
			continue
		}
		own = append(own, line)
	}
	return own
}

// short cuts a line at a whole character.
func short(line string) string {
	if len(line) <= mostBytes {
		return line
	}
	cut := mostBytes
	for !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + "..."
}
