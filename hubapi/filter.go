package hubapi

// JobFilter selects some of the caller's jobs and scans, in the form of a query. The zero value selects all.
type JobFilter struct {
	State string // pending, running, done, failed or canceled, several with commas between; a scan matches by any point
	Name  string // a part of the name, in upper or lower case, or the beginning of the ID
	Since string // the earliest submission, as units.ParseSince reads it: "2d", "2026-11-20"
}

func (f JobFilter) pairs() []string {
	return []string{"state", f.State, "name", f.Name, "since", f.Since}
}
