// Package manifest has the two descriptions that every environment carries: the Document, which names its parts by their
// digests and whose own digest is the environment's, and the Manifest inside the image, which says how it came to be
// what it is.
//
// It promises that what it reads may come from a stranger: only what it would write again is a Document, and sizes can
// be added up. It must not hold anything that depends on when, by whom or from which session an environment was frozen.
package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"slipway/internal/errs"
)

// Format changes when equal sources no longer give equal environments. Those from oldestFormat on are read
// alike.
const (
	Format       = 5
	oldestFormat = 3
)

// Manifest says how an environment came to be what it is. It lies inside the image, so it holds nothing that two
// freezes of equal trees do not share: who, when and from which session stand in the provenance statement and in the
// library's records.
type Manifest struct {
	Format       int      `json:"format"`
	Base         Base     `json:"base"`
	Architecture string   `json:"architecture"`
	Entrypoint   []string `json:"entrypoint,omitempty"`
	Cmd          []string `json:"cmd,omitempty"`
	WorkingDir   string   `json:"workingDir,omitempty"`
	Env          []string `json:"env,omitempty"` // of the base image, NAME=value
	Files        int64    `json:"files"`         // inodes of the tree

	Strip  []string `json:"strip"`            // rules; what they match is not in the image
	Mounts []string `json:"mounts,omitempty"` // mounted in the session, hence not in the image
	// Of the session, which are not in the image, nor is what the base has of their names.
	Sockets []string `json:"sockets,omitempty"`
	Devices []string `json:"devices,omitempty"` // the same of character and block devices
	Added   []string `json:"added,omitempty"`   // made by the freeze, for Apptainer
	// Variables of the base's Env that no shell can set or that a run sets itself.
	Unexported []string `json:"unexported,omitempty"`
	// Files that hold what looks like a secret, and are here by the user's word.
	Allowed []string `json:"allowed,omitempty"`
	Losses  Losses   `json:"losses"`
}

// Base names the image that a source was started from.
type Base struct {
	Reference string `json:"reference"` // as the user or site wrote it
	Digest    string `json:"digest"`    // digest or ID of the image; the fingerprint relies on it
}

// Losses counts what squashfs cannot hold. The fractions of seconds in times are not among it: nearly every entry has
// one, and two trees that differ in nothing else are one environment.
type Losses struct {
	ACLs   int64    `json:"acls,omitempty"`   // POSIX ACLs
	Xattrs int64    `json:"xattrs,omitempty"` // of namespaces other than user, trusted and security, ACLs aside
	Times  int64    `json:"times,omitempty"`  // entries whose mtime is before 1970 or after 2106
	Paths  []string `json:"paths,omitempty"`  // of ACLs, xattrs and times, the first hundreds
	Others []string `json:"others,omitempty"` // what the engine did not give out, in words
}

// Decode reads a manifest, which may come from a stranger.
func Decode(data []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, errs.New(errs.Invalid, "this is no environment's manifest: %w", err)
	}
	if m.Format < oldestFormat || m.Format > Format {
		return Manifest{}, errs.New(
			errs.Invalid, "the environment's manifest has format %d, this version knows %d to %d", m.Format,
			oldestFormat, Format,
		).With("use the version of Slipway that froze it, or freeze it again")
	}
	return m, nil
}

// Encode returns the manifest's bytes, as many as a stranger would read.
func Encode(m Manifest) ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	if len(data) > MaxSize {
		return nil, errs.New(
			errs.Invalid, "what is to be said of the environment takes %d bytes, at most %d are kept", len(data),
			MaxSize,
		).With("shorten the names of sockets and of files with ACLs or unusual attributes, or remove them, and freeze again")
	}
	return data, nil
}

// Text makes a name that is not UTF-8 fit for JSON without making two names one.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return fmt.Sprintf("%+q", s)
}

// Texts returns names that are fit for JSON, sorted.
func Texts(list []string) []string {
	var out []string // an empty list is left out of a manifest, and is nil when it is read
	for _, s := range list {
		out = append(out, Text(s))
	}
	slices.Sort(out)
	return out
}
