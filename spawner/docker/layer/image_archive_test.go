package layer

import (
	"strings"
	"testing"
)

func TestLoaded(t *testing.T) {
	for text, want := range map[string]string{
		`{"stream":"Loaded image ID: sha256:1\n"}`: "", "": "", `{"status":"x"}{"errorDetail":{"message":"no layer"},"error":"no layer"}`: "no layer", `{`: "unexpected EOF",
	} {
		if err := ReadLoad(strings.NewReader(text)); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("loaded(%q) = %v, want %q", text, err, want)
		}
	}
}
