package config

import (
	"strings"
	"testing"
)

func TestVSCode(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "",
		"{gallery: 'https://mirror.example.org/vscode/gallery'}":                                                          "",
		"{gallery: mirror.example.org}":                                                                                   "vscode.gallery",
		"{gallery: 'https://me:hush@mirror.example.org'}":                                                                 "vscode.gallery",
		"{items: 'https://mirror.example.org/item'}":                                                                      "vscode.gallery",
		"{gallery: 'https://m/g', resources: 'https://me:hush@m/files/{publisher}'}":                                      "vscode.resources",
		"{gallery: 'me:hush@mirror.example.org'}":                                                                         "xxxxx@mirror.example.org",
		"{gallery: 'https://me:hush%@mirror.example.org'}":                                                                "xxxxx@mirror.example.org",
		"{gallery: 'https://m/g', items: m}":                                                                              "vscode.items",
		"{gallery: 'https://m/g', resources: 'https://m/{publisher}/{name}/{path}'}":                                      "{version}",
		"{gallery: 'https://m/g', resources: 'https://m/files/{publisher}/{name}/{version}/{path}', items: 'http://m/i'}": "",
	} {
		c, err := Parse([]byte("vscode: " + text))
		if err != nil {
			t.Fatal(err)
		}
		var p problems
		c.checkVSCode(&p)
		said := ""
		for _, err := range p {
			said += err.Error()
		}
		if (said == "") != (want == "") || !strings.Contains(said, want) || strings.Contains(said, "hush") {
			t.Errorf("%s: %q, want %q", text, said, want)
		}
	}
}

func TestVSCodeEnvironment(t *testing.T) {
	if env := (VSCode{}).Environment(); env != nil {
		t.Errorf("%v", env)
	}
	v := VSCode{Gallery: "https://m/gallery/", Items: "https://m/item"}
	if said := v.Environment()["EXTENSIONS_GALLERY"]; said != `{"serviceUrl":"https://m/gallery","itemUrl":"https://m/item"}` {
		t.Error(said)
	}
}
