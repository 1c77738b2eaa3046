package hubapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// LauncherSpec is a kernelspec as Jupyter's launchers show it.
type LauncherSpec struct {
	Name        string
	DisplayName string
	Language    string
	Metadata    json.RawMessage // nil: none
	Logos       []string        // paths, for LauncherLogo
}

// LauncherSpecs lists the kernelspecs that the caller may start, by name.
func (c *Client) LauncherSpecs(ctx context.Context) ([]LauncherSpec, error) {
	type all struct {
		Specs map[string]struct {
			Spec struct {
				DisplayName string          `json:"display_name"`
				Language    string          `json:"language"`
				Metadata    json.RawMessage `json:"metadata"`
			} `json:"spec"`
			Resources map[string]string `json:"resources"`
		} `json:"kernelspecs"`
	}
	found, err := fetch[all](ctx, c.gateway(), http.MethodGet, "/kernelspecs", nil)
	var list []LauncherSpec
	for name, k := range found.Specs {
		one := LauncherSpec{
			Name: name, DisplayName: k.Spec.DisplayName, Language: k.Spec.Language, Metadata: k.Spec.Metadata,
		}
		for _, logo := range k.Resources {
			one.Logos = append(one.Logos, logo)
		}
		slices.Sort(one.Logos)
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b LauncherSpec) int { return cmp.Compare(a.Name, b.Name) })
	return list, err
}

// LauncherLogo returns the picture that lies at a path of LauncherSpec.Logos.
func (c *Client) LauncherLogo(ctx context.Context, at string) ([]byte, error) {
	g := *c
	g.api = strings.TrimSuffix(GatewayBase, "/api")
	if i := strings.Index(at, "/kernelspecs/"); i >= 0 {
		at = at[i:]
	}
	text, err := g.text(ctx, at)
	return []byte(text), err
}
