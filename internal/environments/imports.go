package environments

import (
	"slices"

	"slipway/hubapi"
	"slipway/images/inventory"
	"slipway/images/records"
	"slipway/internal/units"
)

// wireImports says what is known of an environment's imports, nil when no session said what it had imported.
func wireImports(u records.Use) *hubapi.Imports {
	if len(u.Imported) == 0 {
		return nil
	}
	modules, broken := u.Broken()
	out := &hubapi.Imports{
		State: hubapi.ImportsTried, Modules: modules, Broken: broken, Lines: units.Bounded(u.Lines(), len(u.Lines())),
	}
	switch {
	case u.Waiting:
		out.State = hubapi.ImportsWaiting
	case !slices.ContainsFunc(u.Attempts, func(a records.Attempt) bool { return a.Why == "" }):
		out.State = hubapi.ImportsUntried
	}
	if !u.Tried.IsZero() {
		out.Tried = &u.Tried
	}
	return out
}

// wireRepositories joins the repositories that the tree needs with those that the session used.
func wireRepositories(i inventory.Inventory, u records.Use) []hubapi.Repository {
	out := []hubapi.Repository{}
	for _, r := range i.CVMFS {
		out = append(out, hubapi.Repository{Name: r.Name, Found: units.Bounded(r.First, r.Files)})
	}
	for _, name := range u.CVMFS {
		at := slices.IndexFunc(out, func(r hubapi.Repository) bool { return r.Name == name })
		if at < 0 {
			out, at = append(out, hubapi.Repository{Name: name}), len(out)
		}
		out[at].Found = append(out[at].Found, "the session used it")
	}
	return out
}
