package mount

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/xrd"
)

const tried = "[2026-11-22 09:55:49 +0000][Error  ][XRootD            ][ 1532] [01@localhost:31094] Impossible to send message kXR_open (file: /data/a b, mode: 0644, flags: kXR_mkpath kXR_open_updt ). Trying to recover.\n"

func TestLogNamesWhatIsLost(t *testing.T) {
	t.Parallel()
	reading := strings.Replace(tried, "kXR_open_updt", "kXR_open_read", 1)
	created := strings.Replace(tried, "/data/a b", "/data/\xff\x1b(file: x, mode: 1", 1)
	if got, _, _ := lostIn(strings.NewReader("noise\n" + tried + reading + tried + created)); !slices.Equal(got, []string{"/data/a b", "/data/??(file: x, mode: 1"}) {
		t.Errorf("%q", got)
	}
}

// TestLossIsToldOnce over services that start anew, wherever they end: also what is logged while there is none, in a
// line that was half written, and in a log so long that its beginning is freed.
func TestLossIsToldOnce(t *testing.T) {
	t.Parallel()
	var told []string
	storage := xrd.New(xrd.Config{Elements: []xrd.Element{{Name: "eos", Path: "/data", Mount: true, Write: true}}})
	m := &Mounter{log: slog.New(slog.DiscardHandler), cfg: Config{RunDir: t.TempDir(), Storage: storage, Tell: func(_, text string) { told = append(told, text) }}}
	log := filepath.Join(m.cfg.RunDir, "s-1", "log-eos")
	m.tellLosses("s-1") // without one
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	lost := func(name string) string { return strings.Replace(tried, "a b", name, 1) }
	half := len(tried) - 30
	for i, step := range []struct{ written, told string }{
		{"noise\n" + lost("one") + lost("one"), "/storage/eos/one"},
		{lost("two")[:half], ""},
		{lost("two")[half:], "/storage/eos/two"},
		{lost("three") + strings.Repeat("noise\n", mostLog/2) + lost("four"), "/storage/eos/three, /storage/eos/four"},
		{"", ""},
		{lost("1") + lost("2") + lost("3") + lost("4") + lost("5") + lost("6"), "/storage/eos/1, /storage/eos/2, /storage/eos/3, /storage/eos/4, /storage/eos/5 and 1 more"},
	} {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(step.written)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		told = nil
		m.tellLosses("s-1")
		if got := strings.Join(told, "\n"); (got == "") != (step.told == "") || !strings.HasPrefix(got, "What was last written to "+step.told+" may not") && got != "" {
			t.Errorf("step %d tells %q", i, got)
		}
	}
	if text, err := os.ReadFile(log); err != nil || text[0] != 0 || !strings.HasSuffix(string(text), lost("6")) {
		t.Errorf("nothing of the log is freed, or too much: %d bytes, %v", len(text), err)
	}
}

// TestConnectionThatBreaksAtTheEnd is told where no file is named, and only where it broke in the session's last
// moments: what broke before has been tried again, and found or told.
func TestConnectionThatBreaksAtTheEnd(t *testing.T) {
	t.Parallel()
	said := func(ago time.Duration) string {
		return "[" + time.Now().Add(-ago).UTC().Format("2006-01-02 15:04:05.000000 -0700") +
			"][Error  ][AsyncSock         ][ 5346] [localhost:20285.0] Socket error encountered: [ERROR] Socket error\n"
	}
	for name, c := range map[string]struct {
		log, told string
		readOnly  bool
	}{
		"at the end":             {log: said(2*time.Hour) + "noise\n" + said(time.Second), told: "What was last written to /storage/eos may not be in the storage, to which the connection broke"},
		"in a long log":          {log: strings.Repeat("noise\n", mostLog/4) + said(time.Second), told: "What was last written to /storage/eos may not"},
		"long before":            {log: said(2 * time.Hour)},
		"a file is named":        {log: said(time.Second) + tried, told: "What was last written to /storage/eos/a b may not"},
		"nothing was written":    {log: said(time.Second), readOnly: true},
		"without a time":         {log: "[yesterday] Socket error encountered\n"},
		"nothing broke":          {log: "noise\n"},
		"there is no log at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			storage := xrd.New(xrd.Config{Elements: []xrd.Element{{Name: "eos", Path: "/data", Mount: true, Write: !c.readOnly}}})
			m := &Mounter{log: slog.New(slog.DiscardHandler), cfg: Config{RunDir: t.TempDir(), Storage: storage, Tell: func(_, text string) { told = append(told, text) }}}
			dir := filepath.Join(m.cfg.RunDir, "s-1")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.log != "" {
				if err := os.WriteFile(filepath.Join(dir, "log-eos"), []byte(c.log), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m.tellLastLosses("s-1")
			if got := strings.Join(told, "\n"); len(told) > 1 || (got == "") != (c.told == "") || !strings.HasPrefix(got, c.told) {
				t.Errorf("told: %q", got)
			}
		})
	}
}

func FuzzLostIn(f *testing.F) {
	f.Add(tried)
	f.Fuzz(func(t *testing.T, log string) {
		names, length, err := lostIn(strings.NewReader(log))
		if err != nil || length != int64(strings.LastIndex(log, "\n")+1) {
			t.Errorf("%d bytes, %v", length, err)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "/") || strings.Contains(name, "\n") {
				t.Errorf("%q", name)
			}
		}
	})
}
