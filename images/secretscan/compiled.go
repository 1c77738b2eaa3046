package secretscan

import (
	"bytes"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxSource bounds the sources that are read for their compiled files: what Look is given at most.
const maxSource = 1 << 20

// judgeSources puts a source in the place of a file that Python compiled from it (PEP 3147) and that has the same
// secrets: packages list sums of sources, and it is the source that the user must change. One that is stale, and keeps
// what is no longer in its source, stays.
func (s *Scanner) judgeSources(files map[string]suspect, tree Tree) {
	for _, p := range slices.Sorted(maps.Keys(files)) {
		source, ok := sourceOf(p)
		if !ok {
			continue
		}
		found, ok := s.searchIn(tree, source)
		if ok && covers(found.findings, files[p].findings) {
			delete(files, p)
			files[source] = found
		}
	}
}

// sourceOf returns /a/b.py for /a/__pycache__/b.cpython-312.pyc.
func sourceOf(p string) (string, bool) {
	dir, base := path.Split(p)
	dir, ok := strings.CutSuffix(dir, "/__pycache__/")
	name, tag, dotted := strings.Cut(base, ".")
	return dir + "/" + name + ".py", ok && dotted && name != "" && strings.HasSuffix(tag, ".pyc")
}

func (s *Scanner) searchIn(tree Tree, p string) (suspect, bool) {
	f, err := tree.Open(p)
	if err != nil {
		return suspect{}, false
	}
	var content bytes.Buffer
	n, err := io.Copy(&content, io.LimitReader(f, maxSource+1))
	if closeErr := f.Close(); err != nil || closeErr != nil || n > maxSource {
		return suspect{}, false
	}
	return suspectOf(s.search(p, content.Bytes()), content.Bytes()), true
}

// covers says whether every kind in compiled is in source.
func covers(source, compiled []Finding) bool {
	return !slices.ContainsFunc(compiled, func(f Finding) bool {
		return !slices.ContainsFunc(source, func(g Finding) bool { return g.Kind == f.Kind })
	})
}
