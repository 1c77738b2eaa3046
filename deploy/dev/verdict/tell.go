package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// tell writes what passed at its second try only, then what failed; whether anything did.
func (r *record) tell(out io.Writer) (failed bool) {
	var again, never []*subject
	for _, s := range r.subjects {
		switch {
		case s.firstFailure() == nil || r.saidBelow(s):
		case s.last().result == "pass" && s.name != "":
			again = append(again, s)
		default:
			never = append(never, s)
		}
	}
	for _, s := range again {
		fmt.Fprintf(out, "passed at the second try: %s\n%s%s", s, s.firstFailure().shown(), s.alone())
	}
	for _, s := range never {
		fmt.Fprintf(out, "failed: %s\n%s%s", s, s.firstFailure().shown(), s.alone())
	}
	return len(never) > 0
}

func (s *subject) String() string { return strings.TrimSpace(s.pkg + " " + s.name) }

// alone is the command that runs a subject by itself, a subtest with all of its test.
func (s *subject) alone() string {
	_, dir, _ := strings.Cut(s.pkg, "/")
	run := ""
	if s.name != "" {
		test, _, _ := strings.Cut(s.name, "/")
		run = " -run '^" + test + "$'"
	}
	return fmt.Sprintf("    alone: go test -race%s ./%s\n", run, dir)
}

// firstFailure returns the first try that failed; of a package only one for which no test is to blame, or of which it
// has more to say.
func (s *subject) firstFailure() *attempt {
	for _, a := range s.tries {
		passed := a.result == "pass" || a.result == "skip"
		if !passed && (!a.blamed || len(a.ownLines()) > 0) {
			return a
		}
	}
	return nil
}

// saidBelow tells whether a test failed only because a subtest did, which is told there.
func (r *record) saidBelow(s *subject) bool {
	below := func(o *subject) bool {
		return o.pkg == s.pkg && strings.HasPrefix(o.name, s.name+"/") && o.firstFailure() != nil
	}
	return s.name != "" && len(s.firstFailure().ownLines()) == 0 && slices.ContainsFunc(r.subjects, below)
}
