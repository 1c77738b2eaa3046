package webui

import (
	"fmt"
	"net/url"

	"slipway/hubapi"
	"slipway/internal/units"
)

// leftShown is how many files of a job its page names, and leftNamed how many a row of a table does.
const (
	leftShown = 100
	leftNamed = 2
)

// download is a link to something that a job has left.
type download struct {
	ID, Name, Link, Note string
	Bytes                int64
}

// Left are the links to what a job that has ended has left: what it came to, its files, and its output.
func (r row) Left() (all []download) {
	for i, f := range r.left() {
		d := download{
			ID: fmt.Sprintf("file-%d", i), Name: f.Name, Link: r.Page() + "/files/" + url.PathEscape(f.Name),
			Bytes: f.Size,
		}
		if f.OfRunner() {
			d.Note = "its result, as Python pickles it"
		}
		all = append(all, d)
	}
	if r.Log > 0 {
		all = append(all, download{"log", string(r.ID) + ".log", r.Page() + "/log", "its output", r.Log})
	}
	return all
}

// left are the files that are offered: of what the runner notes, the result alone.
func (r row) left() (all []hubapi.File) {
	for _, f := range r.Files {
		if (!f.OfRunner() || f.Name == "slipway-result.pkl") && len(all) < leftShown {
			all = append(all, f)
		}
	}
	return all
}

// Further says how many files are there that have no link.
func (r row) Further() string {
	if n := hubapi.LeftOf(r.Files).Files - leftShown; n > 0 {
		return fmt.Sprintf("And %s more files: `slipway jobs files %s` lists them all, and fetches them.", grouped(n), r.ID)
	}
	return ""
}

// InTable are the links of a table's row: to the files where they are few, else to the page that lists them; and to the
// output.
func (r row) InTable() []download {
	all, files := r.Left(), len(r.left())
	if files <= leftNamed {
		return all
	}
	sum := hubapi.LeftOf(r.Files)
	words := download{
		Name: fmt.Sprintf("%s files", grouped(sum.Files)), Link: r.Page() + "#left-files", Bytes: sum.Bytes,
	}
	return append([]download{words}, all[files:]...)
}

// Size says how large it is.
func (d download) Size() string { return units.DiskWords(d.Bytes) }
