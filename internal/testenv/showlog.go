package testenv

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Of a log these many lines are shown, and so much of each.
const (
	lastLines = 20
	bytesEach = 400
)

// alarming are lines that tell of trouble: of slog's, of JupyterHub's, of dockerd's.
var alarming = regexp.MustCompile(`level=(WARN|ERROR|warning|error|fatal)|^\[[WEC] \d`)

// ShowLog shows a test that has failed what a program wrote: its last warnings and errors, and its last lines. The
// whole file is kept below SLIPWAY_TEST_LOGS, where that is set. It is looked up only here: `go test` would otherwise
// run every test anew when it is set.
func ShowLog(t testing.TB, what, path string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Logf("%s: %v", what, err)
		return
	}
	t.Logf("%s (%s):\n%s", what, kept(t, filepath.Base(path), text), strings.Join(digest(string(text)), "\n"))
}

// kept says where the whole log is.
func kept(t testing.TB, name string, text []byte) string {
	dir := os.Getenv("SLIPWAY_TEST_LOGS")
	if dir == "" {
		return "SLIPWAY_TEST_LOGS can name a directory for all of it"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err.Error()
	}
	f, err := os.CreateTemp(dir, strings.ReplaceAll(t.Name(), "/", "-")+"-*-"+name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err.Error()
	}
	return "all of it: " + f.Name()
}

// digest returns the last lines of trouble and the last lines at all, each once and in their order.
func digest(text string) (shown []string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	tail := max(0, len(lines)-lastLines)
	for _, line := range lines[:tail] {
		if alarming.MatchString(line) {
			shown = append(shown, line)
		}
	}
	shown = append(shown[max(0, len(shown)-lastLines):], lines[tail:]...)
	for i, line := range shown {
		if len(line) > bytesEach {
			shown[i] = strings.ToValidUTF8(line[:bytesEach], "") + "..."
		}
	}
	return shown
}
