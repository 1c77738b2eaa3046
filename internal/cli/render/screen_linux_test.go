package render

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"slipway/hubapi"
)

// openTerminal returns the two ends of a terminal.
func openTerminal(t *testing.T) (keeper, inside *os.File) {
	t.Helper()
	keeper, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	t.Cleanup(func() { keeper.Close() })
	n, err := unix.IoctlGetInt(int(keeper.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keeper.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	return keeper, inside
}

// TestWatchedInATerminal draws in place, into 80 columns and then into fewer, and leaves the last state behind.
func TestWatchedInATerminal(t *testing.T) {
	keeper, inside := openTerminal(t)
	resize := func(columns uint16) {
		if err := unix.IoctlSetWinsize(int(inside.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
			t.Fatal(err)
		}
	}
	resize(80)
	read := make(chan string)
	go func() {
		var all strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := keeper.Read(buffer)
			all.Write(buffer[:n])
			if err != nil {
				read <- all.String()
				return
			}
		}
	}()
	var err error
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard("scan scan-1 " + strings.Repeat("x", 100))
		err = Watch(t.Context(), inside, b, "scan", func(context.Context) error {
			for i := range 60 {
				b.Set(Row{Order: i, ID: fmt.Sprint(i), Label: fmt.Sprint("k=", i), State: "running", Progress: &hubapi.JobProgress{Done: 1, Of: 2, Text: strings.Repeat("t", 99)}})
				b.Sum(fmt.Sprintf("%d running", i+1), 60)
				if i == 30 {
					<-time.After(2 * drawEvery)
					resize(60)
				}
				<-time.After(drawEvery / 10)
			}
			return nil
		})
	})
	inside.Close()
	out := <-read
	if err != nil || strings.Count(out, "\x1b[J") < 2 || strings.Count(out, "\x1b[J") > 12 {
		t.Fatalf("%v, drawn %d times", err, strings.Count(out, "\x1b[J"))
	}
	frames := strings.Split(out, "\x1b[J")
	last := strings.Split(strings.TrimSpace(frames[len(frames)-2]), "\r\n")
	if !strings.Contains(out, "60 running") || len(last) != 23 {
		t.Errorf("the last state has %d lines: %q", len(last), last)
	}
	for _, frame := range frames[:1] {
		for line := range strings.SplitSeq(frame, "\r\n") {
			if wide(strings.ReplaceAll(line, "\x1b[K", "")) > 80 {
				t.Errorf("wider than the window: %q", line)
			}
		}
	}
}
