package paramgrid

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// table returns the points of a table whose first line names its columns.
func table(path string, text []byte) entries {
	return func(yield func(entry, error) bool) {
		r := rows{rest: string(text)}
		header, err := r.next()
		for header = stripped(header); err == nil; {
			var row []string
			if twice := firstTwice(header); twice != "" {
				err = refuseFile(fmt.Sprintf("%s:1: %.80s is there twice", path, twice), "give every column its own name")
			} else if wrong, remedy := firstWrong(header); wrong != "" {
				err = refuseFile(path+":1: "+wrong, remedy)
			} else if row, err = r.next(); err == nil {
				var e entry
				if e, err = under(header, stripped(row), fmt.Sprintf("%s:%d", path, r.line)); err == nil && e.names != nil && !yield(e, nil) {
					return
				}
			}
		}
		var bad rowError
		if errors.As(err, &bad) {
			err = refuseFile(fmt.Sprintf("%s:%d: %s", path, r.line, bad), remedies[".csv"])
		}
		if err != io.EOF {
			yield(entry{}, err)
		}
	}
}

// under puts a row's cells under the names; a row without any is no point.
func under(header, row []string, where string) (entry, error) {
	if !slices.ContainsFunc(row, func(cell string) bool { return cell != "" }) {
		return entry{}, nil
	}
	if len(row) != len(header) {
		return entry{}, refuseFile(fmt.Sprintf("%s: %d values under %d names", where, len(row), len(header)), remedies[".csv"])
	}
	e := entry{where: where, names: header, values: make(map[string]string, len(row))}
	for i, name := range header {
		e.values[name] = row[i]
	}
	return e, nil
}

func firstTwice(names []string) string {
	for i, name := range names {
		if slices.Contains(names[i+1:], name) {
			return name
		}
	}
	return ""
}

// firstWrong says what is wrong with the first name that no parameter may have.
func firstWrong(names []string) (wrong, remedy string) {
	for _, name := range names {
		if wrong, remedy = wrongName(name); wrong != "" {
			break
		}
	}
	return wrong, remedy
}

// stripped takes away what Python takes for space around each cell.
func stripped(row []string) []string {
	for i, cell := range row {
		row[i] = strings.TrimFunc(cell, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f })
	}
	return row
}

// rowError is what is wrong with a row.
type rowError string

// Error returns it.
func (e rowError) Error() string { return string(e) }

// rows reads rows of cells as Python's csv does when it is strict and skips spaces before cells. encoding/csv takes
// other texts.
type rows struct {
	rest string
	line int
}

// next returns the next row, of which an empty line has none, and io.EOF behind the last.
func (r *rows) next() ([]string, error) {
	if r.rest == "" {
		return nil, io.EOF
	}
	r.line++
	if r.endOfLine() {
		return nil, nil
	}
	var row []string
	for {
		r.rest = strings.TrimLeft(r.rest, " ")
		cell, err := r.cell()
		if err != nil {
			return nil, err
		}
		row = append(row, cell)
		if r.rest == "" || r.endOfLine() {
			return row, nil
		}
		r.rest = r.rest[1:] // the comma
	}
}

// endOfLine takes the end of a line, if it is next.
func (r *rows) endOfLine() bool {
	for _, end := range []string{"\r\n", "\n", "\r"} {
		if rest, ok := strings.CutPrefix(r.rest, end); ok {
			r.rest = rest
			return true
		}
	}
	return false
}

// cell reads a cell, up to the comma or the end of the line behind it.
func (r *rows) cell() (string, error) {
	if !strings.HasPrefix(r.rest, `"`) {
		at := strings.IndexAny(r.rest, ",\r\n")
		if at < 0 {
			at = len(r.rest)
		}
		cell := r.rest[:at]
		r.rest = r.rest[at:]
		return cell, nil
	}
	var cell strings.Builder
	for r.rest = r.rest[1:]; ; cell.WriteByte('"') {
		text, behind, ok := strings.Cut(r.rest, `"`)
		r.line += strings.Count(text, "\n")
		if !ok {
			return "", rowError("unexpected end of data")
		}
		cell.WriteString(text)
		if r.rest, ok = strings.CutPrefix(behind, `"`); !ok {
			break
		}
	}
	if r.rest != "" && !strings.ContainsRune(",\r\n", rune(r.rest[0])) {
		return "", rowError(`',' expected after '"'`)
	}
	return cell.String(), nil
}
