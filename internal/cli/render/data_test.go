package render_test

import (
	"strings"
	"testing"

	"slipway/internal/cli/render"
)

func TestYAML(t *testing.T) {
	for text, want := range map[string]string{
		`{"b": 1, "a": "x", "c": [], "d": null, "e": [{"id": "j-1", "ok": true}]}`: "b: 1\na: x\nc: []\nd: null\ne:\n  - id: j-1\n    ok: true\n",
		`{"a": "true", "b": "12", "c": "2026-11-28T10:00:00Z"}`:                    "a: \"true\"\nb: \"12\"\nc: \"2026-11-28T10:00:00Z\"\n",
		`{"a": "\u001b[31m", "b": "\u202ex"}`:                                      "a: \"\\e[31m\"\nb: \"\\u202ex\"\n",
	} {
		var out strings.Builder
		if err := render.YAML(&out, []byte(text)); err != nil || out.String() != want {
			t.Errorf("%s is written as\n%s(%v), want\n%s", text, &out, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		`{"id": "s-1", "name": "default"}`:                                                "s-1\n",
		`{"jobs": [{"id": "j-2"}, {"id": "j-1"}], "scans": [{"id": "scan-1"}], "n": "x"}`: "j-2\nj-1\nscan-1\n",
		`{"environments": [{"digest": "sha256:ab", "name": "fit"}]}`:                      "sha256:ab\n",
		`[{"name": "a\u001b[31m"}]`:                                                       "a\uFFFD[31m\n",
		`{"sessions": []}`:                                                                "",
	} {
		var out strings.Builder
		if err := render.Names(&out, []byte(text)); err != nil || out.String() != want {
			t.Errorf("the names in %s are %q (%v), want %q", text, &out, err, want)
		}
	}
}
