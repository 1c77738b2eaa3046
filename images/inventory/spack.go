package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// spackSpec is a node of spack's specs. A version may stand alone or, in old ones, within "version" as text.
type spackSpec struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Hash    string `json:"hash"`
}

// parseSpackSpec reads the .spack/spec.json of a prefix. Its first node is the package; the others are what it was
// built with.
func parseSpackSpec(b []byte) (Package, error) {
	var f struct {
		Spec struct {
			Nodes []spackSpec `json:"nodes"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return Package{}, fmt.Errorf("read JSON: %w", err)
	}
	if len(f.Spec.Nodes) == 0 || f.Spec.Nodes[0].Name == "" || f.Spec.Nodes[0].Version == "" {
		return Package{}, errors.New("read JSON: no name or no version")
	}
	return f.Spec.Nodes[0].pkg(), nil
}

// parseSpackIndex reads .spack-db/index.json, which tells of prefixes that have no spec.json of their own.
func parseSpackIndex(b []byte) ([]Package, error) {
	var f struct {
		Database struct {
			Installs map[string]struct {
				Spec      spackSpec `json:"spec"`
				Path      string    `json:"path"`
				Installed bool      `json:"installed"`
			} `json:"installs"`
		} `json:"database"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	var out []Package
	for hash, i := range f.Database.Installs {
		if !i.Installed || i.Spec.Name == "" || i.Spec.Version == "" || !strings.HasPrefix(i.Path, "/") {
			continue
		}
		p := i.Spec.pkg()
		p.Path, p.Build = word(i.Path), first(p.Build, word(hash))
		out = append(out, p)
	}
	return out, nil
}

func (s spackSpec) pkg() Package {
	return Package{Manager: Spack, Name: word(s.Name), Version: word(s.Version), Build: word(s.Hash)}
}

// parseDescription reads an R package's DESCRIPTION.
func parseDescription(b []byte) (Package, bool) {
	p := Package{Manager: R}
	for raw := range bytes.Lines(b) {
		key, value, found := strings.Cut(strings.TrimRight(string(raw), "\r\n"), ":")
		if !found {
			continue
		}
		switch key {
		case "Package":
			p.Name = word(value)
		case "Version":
			p.Version = word(value)
		case "License":
			p.License = shortLicense(word(value))
		}
	}
	return p, p.Name != "" && p.Version != ""
}
