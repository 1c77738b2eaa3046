package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of test2json's.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// attempt is one try of a test, or of a whole package.
type attempt struct {
	result string // pass, fail or skip; empty when it was cut off
	output strings.Builder
	paused bool // it waits for its turn
	cut    bool // the package ended before it did
	blamed bool // of a package: a test in it is what failed
	whole  bool // it is of a package
}

// subject is a test, or a package where its name is empty, with all its tries.
type subject struct {
	pkg, name string
	tries     []*attempt
}

func (s *subject) last() *attempt { return s.tries[len(s.tries)-1] }

// record is what all runs told, in the order in which things began.
type record struct {
	subjects []*subject
	byName   map[[2]string]*subject
	builds   map[string]string // what the compiler said, by import path
}

func read(from io.Reader) (*record, error) {
	r := &record{byName: map[[2]string]*subject{}, builds: map[string]string{}}
	events := json.NewDecoder(from)
	for n := 1; ; n++ {
		var e event
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // who wrote it was ended
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", n, err)
		}
		r.take(e)
	}
}

func (r *record) take(e event) {
	switch e.Action {
	case "start", "run":
		r.subject(e).try()
	case "output":
		r.subject(e).current().output.WriteString(e.Output)
	case "pause", "cont":
		r.subject(e).current().paused = e.Action == "pause"
	case "build-output":
		r.builds[e.ImportPath] += e.Output
	case "pass", "fail", "skip":
		s := r.subject(e)
		s.current().result = e.Action
		if e.Test == "" {
			s.last().output.WriteString(r.builds[e.FailedBuild])
			r.cutOff(s)
		} else if e.Action == "fail" {
			r.subject(event{Package: e.Package}).current().blamed = true
		}
	}
}

func (r *record) subject(e event) *subject {
	key := [2]string{e.Package, e.Test}
	if r.byName[key] == nil {
		r.byName[key] = &subject{pkg: e.Package, name: e.Test}
		r.subjects = append(r.subjects, r.byName[key])
	}
	return r.byName[key]
}

// current returns the try that goes on.
func (s *subject) current() *attempt {
	if len(s.tries) == 0 {
		s.try()
	}
	return s.last()
}

func (s *subject) try() { s.tries = append(s.tries, &attempt{whole: s.name == ""}) }

// passed tells whether any package ever did.
func (r *record) passed() bool {
	return slices.ContainsFunc(r.subjects, func(s *subject) bool {
		return s.name == "" && slices.ContainsFunc(s.tries, func(a *attempt) bool { return a.result == "pass" })
	})
}

// cutOff gives a result to the tests that have none when their package has ended. Of those it is to blame for what went
// on.
func (r *record) cutOff(pkg *subject) {
	for _, s := range r.subjects {
		if s.pkg != pkg.pkg || s.name == "" || s.last().result != "" {
			continue
		}
		if s.last().result = "fail"; s.last().paused {
			s.last().result = "skip"
		} else {
			s.last().cut, pkg.last().blamed = true, true
		}
	}
}
