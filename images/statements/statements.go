// Package statements keeps the signed statements on where a library's environments come from.
//
// It promises that only those count which a key has signed that the site accepts. It must not know what an environment
// consists of.
package statements

import (
	"log/slog"
	"os"
	"path/filepath"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/signing"
)

// Store is the statements of a library.
type Store struct {
	dir  libdir.Dir
	keys *signing.Keys // nil: nobody is believed
	log  *slog.Logger
}

// Statement is what a key says about where an environment comes from.
type Statement struct {
	signing.Provenance
	Key signing.Key
}

// New returns the statements in a library's directory. Without keys there are none.
func New(dir libdir.Dir, keys *signing.Keys, log *slog.Logger) *Store { return &Store{dir, keys, log} }

// List returns what accepted keys say about an environment. What others say is passed over.
func (s *Store) List(digest string) (list []Statement, err error) {
	err = s.each(digest, func(file string, _ []byte, stated Statement, refused error) {
		if refused != nil {
			s.log.Warn(
				"a statement about an environment is not believed", "digest", digest, "file", file, "error", refused,
			)
			return
		}
		list = append(list, stated)
	})
	return list, err
}

// Envelopes returns the statements on an environment that accepted keys have signed, as they are kept.
func (s *Store) Envelopes(digest string) (list [][]byte, err error) {
	err = s.each(digest, func(_ string, envelope []byte, _ Statement, refused error) {
		if refused == nil {
			list = append(list, envelope)
		}
	})
	return list, err
}

// each calls fn for all statements about an environment; refused says why one is not believed.
func (s *Store) each(digest string, fn func(file string, envelope []byte, stated Statement, refused error)) error {
	if s.keys == nil {
		return nil
	}
	files, err := filepath.Glob(s.dir.Path("statements", libdir.HexOrNone(digest), "*.json"))
	if err != nil {
		return err
	}
	for _, path := range files {
		envelope, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p, key, err := s.keys.Verify(envelope, digest)
		fn(path, envelope, Statement{p, key}, err)
	}
	return nil
}

// Accepted returns those of some envelopes about an environment that accepted keys have signed.
func (s *Store) Accepted(digest string, envelopes [][]byte) (list [][]byte) {
	if s.keys == nil {
		return nil
	}
	for _, envelope := range envelopes {
		if _, _, err := s.keys.Verify(envelope, digest); err == nil {
			list = append(list, envelope)
		}
	}
	return list
}

// Attested reports whether anything that is believed was stated about an environment. A statement that was damaged is
// made anew.
func (s *Store) Attested(digest string) bool {
	list, err := s.Envelopes(digest)
	return err == nil && len(list) > 0
}

// Save keeps a statement about an environment.
func (s *Store) Save(digest string, envelope []byte) error {
	dir := s.dir.Path("statements", libdir.HexOrNone(digest))
	return libdir.WriteFile(dir, libdir.HexOrNone(blob.Digest(envelope))+".json", envelope)
}
