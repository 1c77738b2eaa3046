package mount

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tried = "[2026-11-22 09:55:49 +0000][Error  ][XRootD            ][ 1532] [01@localhost:31094] Impossible to send message kXR_open (file: /data/a b, mode: 0644, flags: kXR_mkpath kXR_open_updt ). Trying to recover.\n"

func TestLogNamesWhatIsLost(t *testing.T) {
	t.Parallel()
	reading := strings.Replace(tried, "kXR_open_updt", "kXR_open_read", 1)
	created := strings.Replace(tried, "/data/a b", "/data/\xff\x1b(file: x, mode: 1", 1)
	if got := lostIn("noise\n" + tried + reading + tried + created); !slices.Equal(got, []string{"/data/a b", "/data/??(file: x, mode: 1"}) {
		t.Errorf("%q", got)
	}
}

func TestLogIsReadOnceAndKeptShort(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, to := readLog(file, 7); text != "" || to != 0 {
		t.Errorf("without one: %q, %d", text, to)
	}
	write("one")
	text, to := readLog(file, 0)
	write("two")
	if next, end := readLog(file, to); text != "one" || next != "two" || end != 6 {
		t.Errorf("%q, then %q, %d", text, next, end)
	}
	write(strings.Repeat("x", mostLog))
	if _, to := readLog(file, 6); to != 0 {
		t.Errorf("a long one is read to %d", to)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 0 {
		t.Errorf("a long one is %v, %v", info, err)
	}
}

func FuzzLostIn(f *testing.F) {
	f.Add(tried)
	f.Fuzz(func(t *testing.T, log string) {
		for _, name := range lostIn(log) {
			if !strings.HasPrefix(name, "/") || strings.Contains(name, "\n") {
				t.Errorf("%q", name)
			}
		}
	})
}
