package agent

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

func TestPlain(t *testing.T) {
	long := strings.Repeat("ü", 300)
	for text, want := range map[string]string{
		"Slipway stops this session at 14:00.":    "Slipway stops this session at 14:00.",
		" two\r\nlines\tand\x00 \x1b[2Jmore\x07 ": "two lines and [2Jmore",
		"right\u202eleft\u009b31m\u2028next":      "rightleft31m next",
		"bad \xff\xfe bytes":                      "bad bytes",
		long:                                      strings.Repeat("ü", 248) + "...",
		strings.Repeat("a", 500):                  strings.Repeat("a", 500),
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, empty := range []string{"", " \n", "\x1b\x07", "\u202e"} {
		if got := plain(empty); got != "" {
			t.Errorf("%q: %q", empty, got)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("text\x1b]0;title\x07")
	f.Fuzz(func(t *testing.T, s string) {
		text := plain(s)
		if len(text) > control.NoticeLimit || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q", text)
		}
	})
}

// terminal opens a terminal; what is shown on it can be read from the file.
func terminal(t *testing.T) (*os.File, string) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = f.Close() })
	return f, fmt.Sprintf("%s/%d", terminalDir, n)
}

func TestNoticeOnATerminal(t *testing.T) {
	screen, path := terminal(t)
	if list := terminals(terminalDir, os.Getuid()); !slices.Contains(list, path) || slices.Contains(list, terminalDir+"/ptmx") {
		t.Errorf("%s is not in %v", path, list)
	}
	if list := terminals(terminalDir, os.Getuid()+1); slices.Contains(list, path) {
		t.Errorf("another user's terminals: %v", list)
	}
	line := noticeLine("soon")
	show(path, line)
	want := strings.ReplaceAll(line, "\n", "\r\n") // the terminal adds its own
	b := make([]byte, len(want))
	if _, err := io.ReadFull(screen, b); err != nil || string(b) != want {
		t.Errorf("%q, %v", b, err)
	}
}

// A terminal that takes nothing keeps nobody waiting; nor do things that are no terminals.
func TestNoticeNeverWaits(t *testing.T) {
	_, full := terminal(t)
	line := noticeLine(strings.Repeat("x", control.NoticeLimit))
	for range 200 { // some 100 kB: more than a terminal holds
		show(full, line)
	}
	screen, stopped := terminal(t)
	slave, err := os.OpenFile(stopped, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	if err := unix.IoctlSetInt(int(slave.Fd()), unix.TCXONC, unix.TCOOFF); err != nil {
		t.Fatal(err)
	}
	show(stopped, line)
	_ = screen.Close()
	show(stopped, line) // it is gone
	show(t.TempDir(), line)
	if list := terminals(t.TempDir(), os.Getuid()); list != nil {
		t.Error(list)
	}
	if list := terminals("/no/such", os.Getuid()); list != nil {
		t.Error(list)
	}
}

func TestBadNotice(t *testing.T) {
	r := newRig(t)
	if err := r.client.Notify(t.Context(), " \x1b"); !errs.Is(err, errs.Invalid) {
		t.Errorf("a notice of nothing: %v", err)
	}
}
