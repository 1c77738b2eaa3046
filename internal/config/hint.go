package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// remedy says what to do about a file that cannot be read: for an unknown key, which known one is meant.
func remedy(err error) string {
	const general = "`slipway config example` shows every key"
	e, ok := errors.AsType[*yaml.UnknownFieldError](err)
	if !ok || e.Token == nil {
		return general
	}
	if near := nearest(e.Token.Value, keys(reflect.TypeFor[Config](), "")); near != "" {
		return "did you mean " + near + "? " + general
	}
	return general
}

// keys gives the path of every key below a struct, as "docker.socket" and "hubs[].name".
func keys(t reflect.Type, prefix string) []string {
	var all []string
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if name == "" {
			continue
		}
		of := f.Type
		all = append(all, prefix+name)
		if of.Kind() == reflect.Slice {
			of, name = of.Elem(), name+"[]"
		}
		if of.Kind() == reflect.Struct {
			all = append(all, keys(of, prefix+name+".")...)
		}
	}
	return all
}

// nearest gives the key whose last word is fewest edits from word, empty when none is near.
func nearest(word string, keys []string) string {
	best, least := "", len(word)/3+2
	for _, key := range keys {
		if d := distance(word, key[strings.LastIndexByte(key, '.')+1:]); d < least {
			best, least = key, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = slices.Min([]int{change, row[j] + 1, diagonal + 1})
		}
	}
	return row[len(b)]
}
