package render

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
)

func TestBoard(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	up, end := now.Add(-75*time.Second), now.Add(-15*time.Second)
	b := NewBoard("scan scan-1")
	b.Set(Row{Order: 0, ID: "a", Label: "0 k=1", State: "done", Up: &up, End: &end})
	b.Set(Row{Order: 1, ID: "b", Label: "1 k=2", State: "running", Up: &up, Progress: &hubapi.JobProgress{Done: 40, Of: 100, Text: "epoch 4"}, Where: "wn042 1g.18gb"})
	b.Set(Row{Order: 2, ID: "c", Label: "2 k=\x1b[2J日本", State: "failed", Reason: "out of memory", Attempt: 2})
	b.Sum("1 running, 1 done, 1 failed", 4)
	want := strings.Join([]string{
		"scan scan-1",
		"[##########----------] 2 of 4 ended: 1 running, 1 done, 1 failed",
		"2 k=\uFFFD[2J日本  failed (try 2)                           out of memory",
		"1 k=2         running         [####------]  40%  1:15  wn042 1g.18gb epoch 4",
		"0 k=1         done                               1:00",
		"and 1 more",
	}, "\n")
	if got := strings.Join(b.lines(100, 40, now), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestABoardFitsItsWindow in every window, of however many rows.
func TestABoardFitsItsWindow(t *testing.T) {
	now := time.Now()
	b := NewBoard("scan " + strings.Repeat("x", 200))
	for i := range 10_000 {
		state := []string{"failed", "running", "pending", "done"}[i%4]
		b.Set(Row{Order: i, ID: fmt.Sprint(i), Label: fmt.Sprintf("%d lr=%s日本", i, strings.Repeat("0", i%90)), State: state, Up: &now, Reason: strings.Repeat("why ", i%60)})
	}
	for width := 1; width < 200; width += 7 {
		for height := 1; height < 60; height += 5 {
			lines := b.lines(width, height, now)
			if len(lines) > max(4, min(boardRows+3, height-1)) {
				t.Fatalf("%d lines in %d", len(lines), height)
			}
			for _, line := range lines {
				if wide(line) > width {
					t.Fatalf("%d columns in %d: %q", wide(line), width, line)
				}
			}
		}
	}
	lines := strings.Join(b.lines(80, 24, now), "\n")
	if n := strings.Count(lines, " failed"); n != 10 || strings.Count(lines, " running") != 10 {
		t.Errorf("what fails leaves room for what runs:\n%s", lines)
	}
}

func TestAScreenIsDrawnOver(t *testing.T) {
	var w strings.Builder
	s := &screen{w: &w}
	draw := func(width int, lines ...string) string {
		w.Reset()
		if err := s.draw(lines, width); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	if got := draw(80, "one", strings.Repeat("x", 60)); got != "one\x1b[K\n"+strings.Repeat("x", 60)+"\x1b[K\n\x1b[J" {
		t.Errorf("%q", got)
	}
	if got := draw(80, "two"); got != "\x1b[2A\rtwo\x1b[K\n\x1b[J" {
		t.Errorf("%q", got)
	}
	draw(80, strings.Repeat("x", 60))
	if got := draw(40, "three"); !strings.HasPrefix(got, "\x1b[2A\r") {
		t.Errorf("a line that the narrower window has broken is two: %q", got)
	}
}

func TestWhatIsNoTerminalGetsLines(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, ok := terminalSize(f); ok {
		t.Error("a file is no terminal")
	}
	if _, ok := viewOf(f, NewBoard(""), "scan").(*lineView); !ok {
		t.Error("a file gets lines")
	}
}
