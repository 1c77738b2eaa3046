package webui

import (
	"slices"

	"slipway/hubapi"
	"slipway/spawner"
)

// Looking reports whether a look at its data is under way.
func (s single) Looking() bool { return s.Data != nil && s.Data.Running && s.Phase == spawner.Running }

// CanCheck reports whether its data can be looked at again.
func (s single) CanCheck() bool {
	return s.Data != nil && !s.Looking() && s.CanStop() && s.Phase == spawner.Running
}

// Checks are what was found, the worst first.
func (s single) Checks() []hubapi.DataCheck {
	order := []string{hubapi.CheckFail, hubapi.CheckWarn, hubapi.CheckOK}
	list := slices.Clone(s.Data.Checks)
	slices.SortStableFunc(
		list, func(a, b hubapi.DataCheck) int { return slices.Index(order, a.Result) - slices.Index(order, b.Result) },
	)
	return list
}

// Mark is how a result looks.
func (single) Mark(c hubapi.DataCheck) string {
	return map[string]string{hubapi.CheckOK: "running", hubapi.CheckWarn: "waiting"}[c.Result]
}

// Word is what it is called, as `slipway doctor data` does.
func (single) Word(c hubapi.DataCheck) string {
	return map[string]string{hubapi.CheckOK: "ok", hubapi.CheckWarn: "warn", hubapi.CheckFail: "fail"}[c.Result]
}
