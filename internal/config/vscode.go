package config

import (
	"encoding/json"
	"strings"
)

// VSCode is what VS Code in sessions is told.
type VSCode struct {
	Gallery   string `yaml:"gallery"`   // where its extensions come from; empty: Open VSX
	Items     string `yaml:"items"`     // where an extension has its page
	Resources string `yaml:"resources"` // where its files lie: an address with parts in braces
}

// Environment is what sessions are told of it, as code-server reads it.
func (v VSCode) Environment() map[string]string {
	if v.Gallery == "" {
		return nil
	}
	said, _ := json.Marshal(struct {
		Service   string `json:"serviceUrl"`
		Items     string `json:"itemUrl,omitempty"`
		Resources string `json:"resourceUrlTemplate,omitempty"`
	}{strings.TrimRight(v.Gallery, "/"), v.Items, v.Resources})
	return map[string]string{"EXTENSIONS_GALLERY": string(said)}
}

func (c Config) checkVSCode(p *problems) {
	v := c.VSCode
	for _, each := range []struct{ key, value, example string }{
		{"gallery", v.Gallery, "https://openvsx.example.org/vscode/gallery"},
		{"items", v.Items, "https://openvsx.example.org/vscode/item"},
		{"resources", v.Resources, "https://openvsx.example.org/vscode/asset/{publisher}/{name}/{version}/Microsoft.VisualStudio.Code.WebResources/{path}"},
	} {
		if _, ok := webURL(each.value); each.value != "" && !ok {
			p.add("vscode."+each.key, withoutPassword(each.value), "an address such as "+each.example+", or nothing")
		}
	}
	if v.Gallery == "" && v.Items+v.Resources != "" {
		p.add("vscode.gallery", "", "the address of the gallery that vscode.items and vscode.resources belong to")
	}
	if parts := []string{"{publisher}", "{name}", "{version}", "{path}"}; v.Resources != "" {
		for _, part := range parts {
			if !strings.Contains(v.Resources, part) {
				p.add(
					"vscode.resources", withoutPassword(v.Resources),
					"an address with "+strings.Join(parts, ", ")+" in it",
				)
				return
			}
		}
	}
}
