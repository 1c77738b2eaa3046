package secretscan

import (
	"crypto/md5"
	"crypto/sha256"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway/internal/errs"
)

// maxHits bounds the findings of one file, maxFiles the files that are kept with theirs.
const (
	maxHits  = 20
	maxFiles = 10_000
)

// Config is what a Scanner needs.
type Config struct {
	// Absolute paths that the user allows; one that ends in a slash is a directory with all below it.
	Allow []string
	Now   func() time.Time // nil: time.Now. What has ended before it is no secret
}

// Scanner looks at files and keeps what it finds. It is safe for concurrent use.
type Scanner struct {
	allow []string
	now   time.Time
	index *index
	names byName

	windows sync.Pool    // of *[windowSize]byte
	texts   atomic.Int64 // bytes of large texts that were searched behind their first windows

	mu    sync.Mutex
	files map[string]suspect
	more  map[string]struct{} // paths with findings that had no room
}

// suspect is a file with findings, and the sums by which a package may know it.
type suspect struct {
	findings []Finding
	sha256   [sha256.Size]byte
	md5      [md5.Size]byte
}

func suspectOf(findings []Finding, content []byte) suspect {
	return suspect{findings, sha256.Sum256(content), md5.Sum(content)}
}

// New makes a Scanner for one freeze.
func New(cfg Config) (*Scanner, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := CheckAllow(cfg.Allow); err != nil {
		return nil, err
	}
	return &Scanner{
		allow: slices.Clone(cfg.Allow), now: cfg.Now(), index: newIndex(anchors()), names: newByName(nameRules()),
		files: map[string]suspect{}, more: map[string]struct{}{},
		windows: sync.Pool{New: func() any { return new([windowSize]byte) }},
	}, nil
}

// CheckAllow refuses what a user may write by mistake for a path in the session.
func CheckAllow(allow []string) error {
	for _, p := range allow {
		if len(p) < 2 || p[0] != '/' || path.Clean(p) != p && path.Clean(p)+"/" != p {
			return errs.Bad(
				"allow_secret", p,
				"give the absolute path of a file, or of a directory with a slash at its end, as in the session",
			)
		}
	}
	return nil
}

// Look searches one regular file, given whole; path is counted from the environment's root. A file that is looked at
// again is what it is the last time. content is not kept.
func (s *Scanner) Look(path string, content []byte) {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	var found suspect
	if findings := s.search(path, content); len(findings) > 0 {
		found = suspectOf(findings, content)
	}
	s.keep(path, found)
}

// keep remembers what was found in a file the last time.
func (s *Scanner) keep(path string, found suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, path)
	delete(s.more, path)
	switch {
	case len(found.findings) == 0:
	case len(s.files) < maxFiles:
		s.files[path] = found
	default:
		s.more[path] = struct{}{}
	}
}

// search returns the findings of one file in the order of their lines, one a kind and line.
func (s *Scanner) search(p string, content []byte) []Finding {
	v := view{path: p, content: content, now: s.now}
	var hits []hit
	if k, ok := magic(content); ok {
		hits = append(hits, hit{k, -1})
	}
	hits = append(hits, s.names.search(v)...)
	s.index.scan(content, func(a *anchor, at int) {
		if len(hits) > maxHits {
			return
		}
		if h, ok := a.check(v, at); ok {
			hits = append(hits, h)
		}
	})
	return findingsOf(v, hits)
}

func findingsOf(v view, hits []hit) []Finding {
	var list []Finding
	for _, h := range hits {
		f := Finding{Path: v.path, Kind: h.kind, Line: line(v.content, h.at)}
		if !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b Finding) int { return a.Line - b.Line })
	return list[:min(len(list), maxHits)]
}
