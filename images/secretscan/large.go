package secretscan

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The bounds of what is read of files that are not given whole.
const (
	windowSize = 1 << 20
	overlap    = 64 << 10 // between two windows: no secret is longer than half of it
	maxText    = 16 << 20 // of one text
	maxTexts   = 64 << 20 // of all texts, behind their first windows
	maxHashed  = 1 << 30  // of a file with findings whose sums are to be looked up
)

// LookLarge searches a regular file that is too large to be given whole: its first MiB, and of text up to 16 MiB, as
// long as 64 MiB in all were not used up. A file that ends early is one that has changed meanwhile: what is there is
// searched.
func (s *Scanner) LookLarge(path string, size int64, r io.ReaderAt) error {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	findings, err := s.searchLarge(path, size, r)
	if err != nil {
		return fmt.Errorf("look for secrets in %q: %w", path, err)
	}
	found := suspect{findings: findings}
	if len(findings) > 0 && size <= maxHashed {
		if found, err = suspectIn(findings, io.NewSectionReader(r, 0, size)); err != nil {
			return fmt.Errorf("look for secrets in %q: %w", path, err)
		}
	}
	s.keep(path, found)
	return nil
}

func suspectIn(findings []Finding, r io.Reader) (suspect, error) {
	long, short := sha256.New(), md5.New()
	if _, err := io.Copy(io.MultiWriter(long, short), r); err != nil {
		return suspect{}, err
	}
	return suspect{findings, [sha256.Size]byte(long.Sum(nil)), [md5.Size]byte(short.Sum(nil))}, nil
}

// searchLarge goes through a file window by window.
func (s *Scanner) searchLarge(path string, size int64, r io.ReaderAt) ([]Finding, error) {
	buffer := s.windows.Get().(*[windowSize]byte)
	defer s.windows.Put(buffer)
	var all []Finding
	lines, text := 0, true
	for at := int64(0); ; at += windowSize - overlap {
		n, err := r.ReadAt(buffer[:min(windowSize, size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		content := buffer[:n]
		if at == 0 {
			all, text = s.search(path, content), bytes.IndexByte(content, 0) < 0
		} else {
			all = append(all, s.searchOn(path, content, lines)...)
		}
		next := at + windowSize - overlap
		if !text || n < windowSize || next+overlap >= min(size, maxText) || len(all) >= maxHits ||
			s.texts.Add(windowSize) > maxTexts {
			break
		}
		lines += bytes.Count(content[:windowSize-overlap], []byte("\n"))
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return a.Line - b.Line })
	all = slices.Compact(all)
	return all[:min(len(all), maxHits)], nil
}

// searchOn searches a window behind the first: what lies in its first half overlap was in the one before, with what
// stands around it.
func (s *Scanner) searchOn(path string, content []byte, lines int) []Finding {
	v := view{path: path, content: content, now: s.now}
	var hits []hit
	s.index.scan(content, func(a *anchor, at int) {
		if at < overlap/2 || len(hits) > maxHits {
			return
		}
		if h, ok := a.check(v, at); ok {
			hits = append(hits, h)
		}
	})
	findings := findingsOf(v, hits)
	for i := range findings {
		if findings[i].Line > 0 {
			findings[i].Line += lines
		}
	}
	return findings
}
