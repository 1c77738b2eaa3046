package signing

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
)

// The types of in-toto and SLSA, and of what a freeze is.
const (
	statementMedia = "application/vnd.in-toto+json"
	statementType  = "https://in-toto.io/Statement/v1"
	predicateType  = "https://slsa.dev/provenance/v1"
	buildType      = "urn:slipway:freeze:1"
	sitePrefix     = "urn:slipway:site:"
	digestPrefix   = "sha256:"
	unnamed        = "environment"
)

// Provenance says where an environment comes from. None of it is in the image. Digests are written "sha256:" and 64
// hexadecimal digits.
type Provenance struct {
	Environment string   // its digest
	Names       []string // that it was given when it was frozen, "name:tag"; may be empty
	// That says so; Keys.Attest fills it in. A foreign key proves no more than the name that it is trusted under.
	Site     string
	Version  string // of Slipway
	Base     string // its digest; empty when it stands on none
	Strip    string // digest of the rules by which something was left out
	Kind     string // of the session
	Session  string
	User     string
	Started  time.Time
	Finished time.Time
}

type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string    `json:"name"`
	Digest digestSet `json:"digest"`
}

type digestSet struct {
	SHA256 string `json:"sha256"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string    `json:"buildType"`
	ExternalParameters   external  `json:"externalParameters"`
	InternalParameters   internal  `json:"internalParameters"`
	ResolvedDependencies []subject `json:"resolvedDependencies,omitempty"`
}

type external struct {
	User    string `json:"user"`
	Session string `json:"session"`
	Kind    string `json:"kind"`
}

type internal struct {
	Strip digestSet `json:"strip"`
}

type runDetails struct {
	Builder  builder  `json:"builder"`
	Metadata metadata `json:"metadata"`
}

type builder struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

type metadata struct {
	StartedOn  time.Time `json:"startedOn"`
	FinishedOn time.Time `json:"finishedOn"`
}

// Attest signs p as a statement of this site.
func (k *Keys) Attest(p Provenance) ([]byte, error) {
	p.Site = k.cfg.Site
	payload, err := p.encode()
	if err != nil {
		return nil, fmt.Errorf("attest %s: %w", p.Environment, err)
	}
	return k.Sign(statementMedia, payload)
}

// Verify returns what an accepted key says about the environment of that digest. The envelope may be a stranger's.
func (k *Keys) Verify(envelope []byte, digest string) (Provenance, Key, error) {
	payload, key, err := k.Open(statementMedia, envelope)
	if err != nil {
		return Provenance{}, Key{}, fmt.Errorf("provenance of %.80s: %w", digest, err)
	}
	p, err := parseStatement(payload)
	if err == nil && p.Environment != digest {
		err = errs.New(errs.Invalid, "the statement is about %s", p.Environment).With("fetch the environment again")
	}
	if err != nil {
		return Provenance{}, Key{}, fmt.Errorf("provenance of %.80s, signed by %s: %w", digest, key.ID, err)
	}
	return p, key, nil
}

func (p Provenance) encode() ([]byte, error) {
	var sets [3]digestSet
	for i, d := range []string{p.Environment, p.Base, p.Strip} {
		if d == "" && i == 1 {
			continue
		}
		sum, err := parseDigest(d)
		if err != nil {
			return nil, err
		}
		sets[i].SHA256 = sum
	}
	s := statement{Type: statementType, PredicateType: predicateType}
	for _, name := range p.Names {
		s.Subject = append(s.Subject, subject{name, sets[0]})
	}
	if len(s.Subject) == 0 {
		s.Subject = []subject{{unnamed, sets[0]}}
	}
	b := buildDefinition{
		BuildType: buildType, ExternalParameters: external{p.User, p.Session, p.Kind},
		InternalParameters: internal{sets[2]},
	}
	if p.Base != "" {
		b.ResolvedDependencies = []subject{{"base", sets[1]}}
	}
	s.Predicate = predicate{b, runDetails{
		builder{sitePrefix + p.Site, map[string]string{"slipway": p.Version}},
		metadata{p.Started.UTC(), p.Finished.UTC()},
	}}
	return json.Marshal(s)
}

// parseStatement reads a statement that an accepted key has signed. That key may be another site's: nothing in it is
// taken on trust.
func parseStatement(payload []byte) (Provenance, error) {
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil {
		return Provenance{}, errs.New(errs.Invalid, "the statement cannot be read: %w", err)
	}
	b, run := s.Predicate.BuildDefinition, s.Predicate.RunDetails
	if s.Type != statementType || s.PredicateType != predicateType || b.BuildType != buildType {
		return Provenance{}, errs.New(
			errs.Invalid, "the statement is of type %.80q, %.80q, %.80q, not of a freeze", s.Type, s.PredicateType,
			b.BuildType,
		)
	}
	site, ok := strings.CutPrefix(run.Builder.ID, sitePrefix)
	if !ok || len(s.Subject) == 0 || len(b.ResolvedDependencies) > 1 {
		return Provenance{}, errs.New(errs.Invalid, "the statement lacks a site or a subject, or names several bases")
	}
	p := Provenance{
		Environment: digestPrefix + s.Subject[0].Digest.SHA256, Site: site, Version: run.Builder.Version["slipway"],
		Strip: digestPrefix + b.InternalParameters.Strip.SHA256, Kind: b.ExternalParameters.Kind,
		Session: b.ExternalParameters.Session,
		User:    b.ExternalParameters.User, Started: run.Metadata.StartedOn, Finished: run.Metadata.FinishedOn,
	}
	for _, sub := range s.Subject {
		if sub.Digest != s.Subject[0].Digest {
			return Provenance{}, errs.New(errs.Invalid, "the statement is about several environments")
		}
		p.Names = append(p.Names, sub.Name)
	}
	if slices.Equal(p.Names, []string{unnamed}) {
		p.Names = nil
	}
	for _, dep := range b.ResolvedDependencies {
		p.Base = digestPrefix + dep.Digest.SHA256
	}
	return p, p.check()
}

// check makes sure that every digest is one.
func (p Provenance) check() error {
	for _, d := range []string{p.Environment, p.Base, p.Strip} {
		if d == "" {
			continue
		}
		if _, err := parseDigest(d); err != nil {
			return err
		}
	}
	return nil
}

func parseDigest(d string) (string, error) {
	sum, ok := strings.CutPrefix(d, digestPrefix)
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 || sum != strings.ToLower(sum) {
		return "", errs.Bad("digest", fmt.Sprintf("%.100s", d), `it is "sha256:" and 64 hexadecimal digits in lower case`)
	}
	return sum, nil
}
