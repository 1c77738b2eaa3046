package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// findings collects differences from the walk and the workers, and keeps those that the walk met first.
type findings struct {
	mu    sync.Mutex
	count int64
	list  []finding
}

type finding struct {
	step int64
	text string
}

func (f *findings) add(step int64, path, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.list = append(f.list, finding{step, printable("/"+path) + ": " + why})
	if len(f.list) >= 2*maxShown {
		f.trim()
	}
}

func (f *findings) trim() {
	slices.SortStableFunc(
		f.list, func(a, b finding) int { return cmp.Or(cmp.Compare(a.step, b.step), strings.Compare(a.text, b.text)) },
	)
	f.list = f.list[:min(len(f.list), maxShown)]
}

// sums is called when nobody adds any more.
func (f *findings) sums() (count int64, list []string) {
	f.trim()
	list = []string{}
	for _, d := range f.list {
		list = append(list, d.text)
	}
	return f.count, list
}

// printable shows a path that a user named as one line which no terminal takes for a command.
func printable(path string) string {
	for _, r := range path {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return fmt.Sprintf("%+q", path)
		}
	}
	return path
}
