package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"slipway/internal/errs"
)

// Meta is what an SBOM says beside the inventory.
type Meta struct {
	Name    string    // of the environment
	Digest  string    // of the environment: "sha256:" and 64 hex digits; it makes the document's name unique
	Created time.Time // when the environment was frozen
	Tool    string    // what writes the SBOM: "slipway-1.0"
}

// The parts of an SPDX 2.3 document that are written.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string    `json:"SPDXID"`
		Name      string    `json:"name"`
		Version   string    `json:"versionInfo,omitempty"`
		Location  string    `json:"downloadLocation"`
		Analyzed  bool      `json:"filesAnalyzed"`
		Concluded string    `json:"licenseConcluded"`
		Declared  string    `json:"licenseDeclared"`
		Copyright string    `json:"copyrightText"`
		Source    string    `json:"sourceInfo,omitempty"`
		Purpose   string    `json:"primaryPackagePurpose,omitempty"`
		Refs      []spdxRef `json:"externalRefs,omitempty"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const (
	noAssertion = "NOASSERTION"
	spdxDoc     = "SPDXRef-DOCUMENT"
	spdxEnv     = "SPDXRef-Environment"
)

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// SPDX writes an inventory as an SPDX 2.3 document in JSON. Equal input gives equal bytes. Python packages that conda
// or the distribution installed are there once, as theirs.
func SPDX(i Inventory, m Meta) ([]byte, error) {
	if !digestPattern.MatchString(m.Digest) {
		return nil, errs.Bad("digest", m.Digest, `give the environment's digest: "sha256:" and 64 hexadecimal digits`)
	}
	if m.Name == "" || m.Tool == "" || m.Created.IsZero() {
		return nil, errs.New(errs.Invalid, "write the SBOM: name, tool and time of creation are needed")
	}
	d := newDocument(m)
	for _, r := range i.CVMFS {
		d.Packages[0].Refs = append(d.Packages[0].Refs, spdxRef{"OTHER", "cvmfs-repository", r.Name})
	}
	seen := map[string]int{}
	for _, p := range i.Packages {
		if p.Manager == Pip && (p.Installer == string(Conda) || p.Installer == string(Apt)) {
			continue
		}
		d.add(p, i.System, seen)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("write the SBOM: %w", err)
	}
	return b.Bytes(), nil
}

func newDocument(m Meta) *spdxDocument {
	env := newSPDXPackage(spdxEnv, text(m.Name), m.Digest)
	env.Purpose = "CONTAINER"
	return &spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: spdxDoc, Name: text(m.Name),
		// The form that SPDX gives for those whose documents lie at no address of their own.
		Namespace: "https://spdx.org/spdxdocs/" + url.PathEscape(m.Name) + "-" +
			strings.TrimPrefix(m.Digest, "sha256:"),
		Creation: spdxCreation{
			Created: m.Created.UTC().Format("2006-01-02T15:04:05Z"), Creators: []string{"Tool: " + text(m.Tool)},
		},
		Packages: []spdxPackage{env}, Relationships: []spdxRelationship{{spdxDoc, "DESCRIBES", spdxEnv}},
	}
}

func newSPDXPackage(id, name, version string) spdxPackage {
	return spdxPackage{
		ID: id, Name: name, Version: version,
		Location: noAssertion, Concluded: noAssertion, Declared: noAssertion, Copyright: noAssertion,
	}
}

func (d *spdxDocument) add(p Package, s System, seen map[string]int) {
	out := newSPDXPackage(spdxID(p, seen), p.Name, p.Version)
	if l := licenseExpression(p.License); l != "" {
		out.Declared = l
	}
	out.Source = "as " + p.Source + " says"
	out.Refs = []spdxRef{{"PACKAGE-MANAGER", "purl", purl(p, s)}}
	d.Packages = append(d.Packages, out)
	d.Relationships = append(d.Relationships, spdxRelationship{spdxEnv, "CONTAINS", out.ID})
}

var notID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdxID names a package within the document: readable, and unlike any other by a hash of what the package is.
func spdxID(p Package, seen map[string]int) string {
	h := sha256.Sum256([]byte(
		strings.Join([]string{string(p.Manager), p.Name, p.Version, p.Architecture, p.Build, p.Path, p.Source}, "\x00"),
	))
	id := "SPDXRef-" + notID.ReplaceAllString(
		fmt.Sprintf("%s-%s-%s", p.Manager, p.Name, p.Version), "-",
	) + "-" + hex.EncodeToString(h[:6])
	if seen[id]++; seen[id] > 1 {
		id = fmt.Sprintf("%s-%d", id, seen[id])
	}
	return id
}

// purl names a package in the world. Spack has no type of its own there.
func purl(p Package, s System) string {
	q := url.Values{}
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	kind, name := "generic", p.Name
	switch p.Manager {
	case Pip:
		kind, name = "pypi", normal(p)
		if p.Commit != "" {
			set("vcs_url", p.URL+"@"+p.Commit)
		}
	case Apt:
		id := s.ID
		if id == "" {
			id = "debian"
		}
		kind = "deb/" + url.PathEscape(id)
		set("arch", p.Architecture)
		if s.ID != "" && s.Version != "" {
			set("distro", s.ID+"-"+s.Version)
		}
	case Conda:
		kind, name = "conda", strings.ToLower(p.Name)
		set("build", p.Build)
		set("channel", p.Channel)
		set("subdir", p.Architecture)
	case R:
		kind = "cran"
	}
	out := "pkg:" + kind + "/" + escape(name) + "@" + escape(p.Version)
	if len(q) > 0 {
		out += "?" + q.Encode()
	}
	return out
}

// escape writes a part of a purl. An at sign parts name and version there, and some decoders take a plus for a space.
func escape(s string) string {
	return strings.NewReplacer("+", "%2B", "@", "%40").Replace(url.PathEscape(s))
}
