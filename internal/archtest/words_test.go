package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired are words that were this project's alone, and the field's words that stand in their place.
func retired() map[string]string {
	return map[string]string{
		"afar": "remote", "cancelled": "canceled", "courier": "distributor", "depot": "blob store", "disksize": "units",
		"herald": "start webhook", "memsize": "units", "muster": "reconcile",
		"outlet": "publisher", "patrol": "resync", "rebuff": "backoff", "rouse": "end of backoff", "shelf": "repository, records",
		"shelves": "repositories", "tidings": "notices",
	}
}

// others are names of Python's own, and of Slurm's.
var others = regexp.MustCompile(`\.cancelled\(\)|CancelledError|\bCANCELLED\b`)

// wordFaults finds retired words: alone, with an ending, and as a part of a name.
func wordFaults(texts map[string]string) (faults []string) {
	words := sorted(retired())
	var capital []string
	for _, w := range words {
		capital = append(capital, strings.ToUpper(w[:1])+w[1:])
	}
	pattern := regexp.MustCompile(`\b(?i:` + strings.Join(words, "|") + `)|[a-z](?:` + strings.Join(capital, "|") + `)`)
	for _, name := range sorted(texts) {
		if name == "internal/archtest/words_test.go" {
			continue
		}
		for i, line := range strings.Split(texts[name], "\n") {
			line = others.ReplaceAllString(line, "")
			m := strings.ToLower(pattern.FindString(line))
			at := slices.IndexFunc(words, func(w string) bool { return m != "" && strings.HasSuffix(m, w) })
			if at >= 0 {
				faults = append(faults, fmt.Sprintf("%s:%d says %q: say %s", name, i+1, words[at], retired()[words[at]]))
			}
		}
	}
	return faults
}

func TestRetiredWordsAreFound(t *testing.T) {
	got := wordFaults(map[string]string{"a.go": "func (m *M) Muster()\nx := newShelf()\narouse\nthe patrols\n"})
	want := []string{
		`a.go:1 says "muster": say reconcile`, `a.go:2 says "shelf": say repository, records`, `a.go:4 says "patrol": say resync`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
