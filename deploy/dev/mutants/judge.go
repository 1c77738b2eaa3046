package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// survivor is a change that no test can notice. It is known by the line's text, so that it stays known when the line
// moves.
type survivor struct{ path, change, text, why string }

// readSurvivors reads lines such as
//
//	internal/workloadtoken/credential.go < -> <= | if a < b { | they are never equal
//
// and returns them by file.
func readSurvivors(path string) (map[string][]survivor, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	known := map[string][]survivor{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, " | ", 3)
		at, change, ok := strings.Cut(parts[0], " ")
		if len(parts) != 3 || !ok {
			return nil, fmt.Errorf("%s: not FILE CHANGE | LINE | WHY: %s", path, line)
		}
		known[at] = append(known[at], survivor{at, change, parts[1], parts[2]})
	}
	return known, err
}

// tally is what became of a package's mutants.
type tally struct {
	noticed, known int
	lived          []mutant
	gone           []survivor // that are listed, but were noticed or are not there
}

func judge(all []mutant, said []verdict, known map[string][]survivor) (t tally) {
	met := map[survivor]bool{}
	for i, m := range all {
		k, isKnown := m.among(known[m.path])
		switch {
		case said[i] == noticed:
			t.noticed++
		case said[i] == lived && isKnown:
			met[k] = true
			t.known++
		case said[i] == lived:
			t.lived = append(t.lived, m)
		}
	}
	told := map[string]bool{}
	for _, m := range all {
		if told[m.path] {
			continue
		}
		told[m.path] = true
		for _, k := range known[m.path] {
			if !met[k] {
				t.gone = append(t.gone, k)
			}
		}
	}
	return t
}

func (m mutant) among(known []survivor) (survivor, bool) {
	for _, k := range known {
		if k.text == m.text && k.change == strings.TrimSpace(m.from+" -> "+m.to) {
			return k, true
		}
	}
	return survivor{}, false
}

// share is how many of 100 mutants are noticed, of those that can be.
func (t tally) share() int {
	all := t.noticed + len(t.lived)
	if all == 0 {
		return 0
	}
	return 100 * t.noticed / all
}

func (t tally) print(out io.Writer, dir string) {
	fmt.Fprintf(
		out, "%-22s %3d %%: %d noticed, %d not, %d cannot be\n", dir, t.share(), t.noticed, len(t.lived), t.known,
	)
	for _, m := range t.lived {
		fmt.Fprintf(out, "  lived: %s\n", m)
	}
	for _, k := range t.gone {
		fmt.Fprintf(out, "  in survivors.txt, but none: %s %s | %s\n", k.path, k.change, k.text)
	}
}
