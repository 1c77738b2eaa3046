package webui

import "slipway/hubapi"

// room is how full a directory is.
type room struct {
	Name, Words string
	Tight       bool // it is worth doing something about it
	Hint        string
}

// tight is from which percentage on a directory is worth a word.
const tight = 80

// Rooms are those of a session's owner that are known, for herself.
func (r row) Rooms() []room {
	var all []room
	for _, q := range r.Quotas {
		one := room{
			Name: q.Path, Words: hubapi.QuotaWords(q), Tight: q.Trouble != "" || q.ReadOnly || q.Percent >= tight,
		}
		switch {
		case q.ReadOnly:
			one.Hint = "It cannot be written to now: its file system is mounted read-only."
		case one.Tight && q.Trouble == "":
			one.Hint = "In a terminal, slipway home usage shows what is big."
		}
		all = append(all, one)
	}
	return all
}
