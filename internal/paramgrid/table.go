package paramgrid

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// table returns the points of a table whose first line names its columns. A quote in a cell that does not begin with
// one is refused, while Python's csv takes it.
func table(path string, text []byte) entries {
	return func(yield func(entry, error) bool) {
		r := csv.NewReader(bytes.NewReader(text))
		r.TrimLeadingSpace = true
		r.FieldsPerRecord = -1 // under says more about a row of another length
		header, err := r.Read()
		header = stripped(header)
		if err == nil {
			err = checkHeader(path, header)
		}
		for err == nil {
			var row []string
			if row, err = r.Read(); err != nil {
				break
			}
			line, _ := r.FieldPos(0)
			var e entry
			e, err = under(header, stripped(row), fmt.Sprintf("%s:%d", path, line))
			if err == nil && e.names != nil && !yield(e, nil) {
				return
			}
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			err = refuseFile(fmt.Sprintf("%s:%d: %v", path, bad.Line, bad.Err), remedies[".csv"])
		}
		if err != io.EOF {
			yield(entry{}, err)
		}
	}
}

// checkHeader refuses names that no parameter may have.
func checkHeader(path string, names []string) error {
	for i, name := range names {
		if slices.Contains(names[i+1:], name) {
			return refuseFile(fmt.Sprintf("%s:1: %.80s is there twice", path, name), "give every column its own name")
		}
	}
	for _, name := range names {
		if wrong, remedy := wrongName(name); wrong != "" {
			return refuseFile(path+":1: "+wrong, remedy)
		}
	}
	return nil
}

// under puts a row's cells under the names; a row without any is no point.
func under(header, row []string, where string) (entry, error) {
	if !slices.ContainsFunc(row, func(cell string) bool { return cell != "" }) {
		return entry{}, nil
	}
	if len(row) != len(header) {
		what := fmt.Sprintf("%s: %d values under %d names", where, len(row), len(header))
		return entry{}, refuseFile(what, remedies[".csv"])
	}
	e := entry{where: where, names: header, values: make(map[string]string, len(row))}
	for i, name := range header {
		e.values[name] = row[i]
	}
	return e, nil
}

// stripped takes away the space around each cell.
func stripped(row []string) []string {
	for i, cell := range row {
		row[i] = strings.TrimSpace(cell)
	}
	return row
}
