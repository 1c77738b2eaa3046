package inventory

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// parseConda reads one conda-meta/*.json: the package, and its files relative to the prefix.
func parseConda(b []byte) (Package, []string, error) {
	var c struct {
		Name    string   `json:"name"`
		Version string   `json:"version"`
		Build   string   `json:"build"`
		Channel string   `json:"channel"`
		Subdir  string   `json:"subdir"`
		License string   `json:"license"`
		Files   []string `json:"files"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return Package{}, nil, fmt.Errorf("read JSON: %w", err)
	}
	if c.Name == "" || c.Version == "" {
		return Package{}, nil, fmt.Errorf("read JSON: no name or no version")
	}
	p := Package{
		Manager: Conda, Name: word(c.Name), Version: word(c.Version), Build: word(c.Build),
		Architecture: word(c.Subdir),
		Channel:      cleanURL(c.Channel), License: shortLicense(word(c.License)),
	}
	p.Channel = strings.TrimSuffix(p.Channel, "/"+p.Architecture)
	return p, c.Files, nil
}

// condaName returns the name that people call an environment by.
func condaName(prefix string, hasConda bool) string {
	if path.Base(path.Dir(prefix)) == "envs" {
		return text(path.Base(prefix))
	}
	if hasConda {
		return "base"
	}
	return ""
}
