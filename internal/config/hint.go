package config

import (
	"reflect"
	"slices"
	"strings"
)

// keysOf returns the keys of a section; those of the left margin where it is empty.
func keysOf(keys []string, section string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		if section == "" {
			return strings.Contains(key, ".")
		}
		return !strings.HasPrefix(key, section+".") && !strings.HasPrefix(key, section+"[].")
	})
}

// keys returns the path of every key below a struct, as "docker.socket" and "hubs[].name".
func keys(t reflect.Type, prefix string) []string {
	var all []string
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if f.Anonymous {
			all = append(all, keys(f.Type, prefix)...)
		}
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

// nearest returns the key whose last word is fewest edits from word, at most one in three letters; empty when none is
// near.
func nearest(word string, keys []string) string {
	best, least := "", len(word)/3+1
	for _, key := range keys {
		if d := distance(word, key[strings.LastIndexByte(key, '.')+1:]); d < least {
			best, least = key, d
		}
	}
	return best
}

// begun returns the key whose last word, or a part of it, begins as word does, by three letters at least; empty: none
// does.
func begun(word string, keys []string) string {
	best, most := "", 2
	for _, key := range keys {
		for part := range strings.SplitSeq(key[strings.LastIndexByte(key, '.')+1:], "_") {
			if n := common(word, part); n > most {
				best, most = key, n
			}
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
