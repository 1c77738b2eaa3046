package service

import (
	"strings"
	"testing"

	"slipway/hubapi"
)

func TestComplaintCountsWhatElseFails(t *testing.T) {
	r := hubapi.DataReport{Checks: []hubapi.DataCheck{{Check: "clock", Result: hubapi.CheckOK}}}
	if said := complaint(r); said != "" {
		t.Error(said)
	}
	for _, want := range []string{"CVMFS a: dead. The session's page", "CVMFS a: dead; 1 more check fails. The", "CVMFS a: dead; 2 more checks fail. The"} {
		r.Checks = append(r.Checks, hubapi.DataCheck{Check: "CVMFS a", Result: hubapi.CheckFail, Finding: "dead"})
		if said := complaint(r); !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}
