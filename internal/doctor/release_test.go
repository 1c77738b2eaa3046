package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/internal/version"
)

// TestTheServiceThatRuns: one of another version is told, and one that does not run is not.
func TestTheServiceThatRuns(t *testing.T) {
	for text, want := range map[string]string{
		"go_info 1\nslipway_build_info{version=\"" + version.Release + "\"} 1\n": "it runs " + version.Release,
		"slipway_build_info{version=\"0.1.0\"} 1\n":                              "it runs 0.1.0, and this program is",
		"<html>": "does not say its version",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		err := releaseRuns(t.Context(), s.URL)
		s.Close()
		_, good := err.(goodWord)
		if !strings.HasPrefix(text, "go_info") == good || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if _, good := releaseRuns(t.Context(), s.URL).(goodWord); !good {
			t.Error("a service that does not run is a fault")
		}
	}
}
