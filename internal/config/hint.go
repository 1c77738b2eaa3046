package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/token"
)

// remedy says what to do about a file that cannot be read: for an unknown key, which known one is meant.
func remedy(err error) string {
	const general = "`slipway config example` shows every key"
	e, ok := errors.AsType[*yaml.UnknownFieldError](err)
	if !ok || e.Token == nil {
		return general
	}
	all := keys(reflect.TypeFor[Config](), "")
	own, word := keysOf(all, section(e.Token)), strings.ToLower(e.Token.Value)
	near := cmp.Or(nearest(word, own), begun(word, own), nearest(word, all))
	if near != "" {
		return "did you mean " + near + "? " + general
	}
	return general
}

// section gives the key at the left margin below which a token stands; empty for such a key itself.
func section(t *token.Token) string {
	if t.Position.Column == 1 {
		return ""
	}
	for t = t.Prev; t != nil; t = t.Prev {
		if t.Position.Column == 1 && t.Type == token.StringType {
			return t.Value
		}
	}
	return ""
}

// keysOf gives the keys of a section; those of the left margin where it is empty.
func keysOf(keys []string, section string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		if section == "" {
			return strings.Contains(key, ".")
		}
		return !strings.HasPrefix(key, section+".") && !strings.HasPrefix(key, section+"[].")
	})
}

// plainly says of a value of another kind what it is to be, in place of the library's words, which name types of Go.
func plainly(text string, err error) string {
	e, ok := errors.AsType[*yaml.TypeError](err)
	if !ok || e.DstType == nil || e.Token == nil {
		return text
	}
	kinds := map[reflect.Kind]string{
		reflect.Bool: "true or false", reflect.String: "a text", reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Int64: "a whole number",
	}
	kind, ok := kinds[e.DstType.Kind()]
	if !ok {
		return text
	}
	return strings.Replace(text, e.GetMessage(), fmt.Sprintf("%q is not %s", e.Token.Value, kind), 1)
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

// nearest gives the key whose last word is fewest edits from word, at most one in three letters; empty when none is near.
func nearest(word string, keys []string) string {
	best, least := "", len(word)/3+1
	for _, key := range keys {
		if d := distance(word, key[strings.LastIndexByte(key, '.')+1:]); d < least {
			best, least = key, d
		}
	}
	return best
}

// begun gives the key whose last word begins as word does, by three letters at least; empty: none does.
func begun(word string, keys []string) string {
	best, most := "", 2
	for _, key := range keys {
		if n := common(word, key[strings.LastIndexByte(key, '.')+1:]); n > most {
			best, most = key, n
		}
	}
	return best
}

// common counts the letters that two words begin with.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
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
