package paramgrid

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// whole is how large a file may be.
const whole = 64 << 20

// remedies say how the points of a file are written, by its ending.
var remedies = map[string]string{
	".csv":  "write the names in the first line, and a point in each of the others",
	".json": `write it as [{"k": 1, "mode": "fast"}, ...]`,
}

// entry is one point of a file: its names in their order, and where it stands.
type entry struct {
	where  string
	names  []string
	values map[string]string
}

// entries are the points of a file, or what is wrong with it.
type entries = iter.Seq2[entry, error]

// File reads the points of a file: a table with a header (.csv), or a list of objects (.json).
func File(path string) ([]hubapi.Point, error) {
	kind := strings.ToLower(filepath.Ext(path))
	if remedies[kind] == "" {
		return nil, refuseFile(path+": not a .csv or .json file", "give the file one of these endings")
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	entries := table(path, text)
	if kind == ".json" {
		entries = objects(path, text)
	}
	c := checker{seen: map[string]string{}}
	for e, err := range entries {
		if err == nil {
			err = c.take(e)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case c.count > hubapi.PointLimit:
		return nil, refuseFile(fmt.Sprintf("%s: %s points are too many", path, countWords(float64(c.count))),
			fmt.Sprintf("at most %s points", countWords(hubapi.PointLimit)))
	case c.count == 0:
		return nil, refuseFile(path+": there are no points in it", remedies[kind])
	}
	return c.points, nil
}

// readFile reads a file of points, without the mark that some programs begin their texts with.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > whole {
		return nil, refuseFile(
			fmt.Sprintf("%s: larger than %d MiB", path, whole>>20), "put large values into files, and their paths here",
		)
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuseFile(path+": No such file or directory", "give the path of a file that is there")
	case err != nil:
		return nil, refuseFile(err.Error(), "give the path of a file that is there")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, refuseFile(path+": not UTF-8 text", remedies[strings.ToLower(filepath.Ext(path))])
	}
	return text, nil
}

// checker keeps the points that are fit, and counts those that are too many.
type checker struct {
	names  []string // of the first point, which all have
	seen   map[string]string
	points []hubapi.Point
	count  int
}

func (c *checker) take(e entry) error {
	if c.count++; c.count > hubapi.PointLimit {
		return nil
	}
	if c.names == nil {
		c.names = e.names
		for _, name := range c.names {
			if wrong, remedy := wrongName(name); wrong != "" {
				return refuseFile(e.where+": "+wrong, remedy)
			}
		}
	}
	if odd := c.odd(e); odd != "" {
		return refuseFile(
			fmt.Sprintf("%s: %.80s is not in all points", e.where, odd), "give every point the same names",
		)
	}
	var key strings.Builder
	for _, name := range c.names {
		value := e.values[name]
		if value == "" {
			return refuseFile(e.where+": "+name+" has no value", "write one, or leave the line out")
		}
		if wrong, remedy := wrongValue(value); wrong != "" {
			return refuseFile(e.where+": "+name+": "+wrong, remedy)
		}
		key.WriteString(value + "\x00")
	}
	if same := c.seen[key.String()]; same != "" {
		return refuseFile(e.where+": the same point as "+same, "give every point once")
	}
	c.seen[key.String()] = e.where
	c.points = append(c.points, hubapi.Point{Parameters: e.values})
	return nil
}

// odd returns the first name that only the point or only the others have.
func (c *checker) odd(e entry) string {
	if len(e.values) == len(c.names) && !slices.ContainsFunc(c.names, func(name string) bool { _, ok := e.values[name]; return !ok }) {
		return ""
	}
	only := map[string]bool{}
	for _, name := range c.names {
		only[name] = true
	}
	for name := range e.values {
		if only[name] {
			delete(only, name)
		} else {
			only[name] = true
		}
	}
	return slices.Sorted(maps.Keys(only))[0]
}

func refuseFile(what, remedy string) error {
	e := errs.New(errs.Invalid, "--grid-file %s", what).With(remedy)
	e.Field = "grid_file"
	return e
}
