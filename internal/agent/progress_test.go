package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
)

// What the payload says of how far it is comes while it runs, and what it said last stays.
func TestProgress(t *testing.T) {
	r := newRig(t)
	app := shell(`say() { echo "$1" > "$SLIPWAY_PROGRESS.new" && mv "$SLIPWAY_PROGRESS.new" "$SLIPWAY_PROGRESS"; }
say '{"done": 1, "of": 4, "text": "first"}'; while [ ! -e seen ]; do sleep 0.1; done; say '{"done": 4, "of": 4}'`)
	app.Launch = "l1"
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	err := r.client.Watch(t.Context(), func(st control.Status) error {
		if p := st.Progress; p != nil && *p == (control.Progress{Done: 1, Of: 4, Text: "first"}) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal("it was not told:", err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "work", "seen"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := r.until(t, control.Exited).Progress; p == nil || *p != (control.Progress{Done: 4, Of: 4}) {
		t.Errorf("at the end: %+v", p)
	}
}

// TestHostileProgress puts in the file's place what is no progress.
func TestHostileProgress(t *testing.T) {
	for name, line := range map[string]string{
		"huge":       `(echo '{"done": 1, "text": "'; head -c 100000000 /dev/zero) > $SLIPWAY_PROGRESS`,
		"link":       `echo '{"done": 1}' > other; ln -s $PWD/other $SLIPWAY_PROGRESS`,
		"device":     `ln -s /dev/zero $SLIPWAY_PROGRESS`,
		"pipe":       `mkfifo $SLIPWAY_PROGRESS`,
		"directory":  `mkdir $SLIPWAY_PROGRESS`,
		"no number":  `echo '{"done": NaN, "of": 3}' > $SLIPWAY_PROGRESS`,
		"infinite":   `echo '{"done": 1e999}' > $SLIPWAY_PROGRESS`,
		"no JSON":    `echo half > $SLIPWAY_PROGRESS`,
		"a list":     `echo '[1, 2]' > $SLIPWAY_PROGRESS`,
		"unreadable": `echo '{"done": "1"}' > $SLIPWAY_PROGRESS`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if st := r.launch(t, shell(line), control.Exited); st.ExitCode != 0 || st.Progress != nil {
				t.Errorf("code %d, progress %+v", st.ExitCode, st.Progress)
			}
		})
	}
}

// A text that would write all over a terminal is one line, and as long as it may be.
func TestProgressIsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.json")
	text := `{"done": -3, "of": 7, "text": "a\nb\u001b[31m` + strings.Repeat("x", 1000) + `"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := progressFile{path: path}
	p := file.read()
	if p == nil || p.Done != 0 || p.Of != 7 || len(p.Text) != control.ProgressLimit || strings.ContainsAny(p.Text, "\n\x1b") {
		t.Errorf("read %+v", p)
	}
	if again := file.read(); again != nil {
		t.Errorf("unchanged, and read again: %+v", again)
	}
	if err := syscall.Utimes(path, []syscall.Timeval{{Sec: 1}, {Sec: 1}}); err != nil {
		t.Fatal(err)
	}
	if file.read() == nil {
		t.Error("written anew, and not read")
	}
}
