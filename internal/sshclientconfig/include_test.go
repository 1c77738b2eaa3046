package sshclientconfig

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func aliceOn(windows bool) include {
	home := map[bool]string{false: "/home/alice", true: "C:/Users/Alice B"}[windows]
	return include{home: home, dir: home + "/.ssh", target: home + "/.ssh/config.d/slipway.conf", word: "config.d/slipway.conf", windows: windows}
}

func TestIncludeAdd(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	lines, dos := mark+"\nInclude config.d/slipway.conf\n", mark+"\r\nInclude config.d/slipway.conf\r\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":          {"", lines},
		"hosts":            {"Host a\n  User b\n", lines + "Host a\n  User b\n"},
		"no last newline":  {"Host a", lines + "Host a"},
		"comment first":    {"# mine\n\nHost a\n", lines + "# mine\n\nHost a\n"},
		"CRLF":             {"Host a\r\n  User b\r\n", dos + "Host a\r\n  User b\r\n"},
		"mixed, LF first":  {"Host a\n  User b\r\n", lines + "Host a\n  User b\r\n"},
		"BOM":              {bom + "Host a\r\n", bom + dos + "Host a\r\n"},
		"include too late": {"Host *\nInclude config.d/*\n", lines + "Host *\nInclude config.d/*\n"},
		"overruled":        {"User bob\nInclude config.d/*\n", lines + "User bob\nInclude config.d/*\n"},
		"another include":  {"Include conf/*\n", lines + "Include conf/*\n"},
		"there":            {lines + "Host a\n", lines + "Host a\n"},
		"there by hand":    {"Compression yes\nInclude config.d/*\n", "Compression yes\nInclude config.d/*\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := aliceOn(false).add([]byte(c.text))
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if name == "there" || name == "there by hand" {
				return
			}
			if diff := cmp.Diff(c.text, string(aliceOn(false).remove(got))); diff != "" {
				t.Errorf("after the way back: %s", diff)
			}
		})
	}
}

func TestIncludeCovered(t *testing.T) {
	for _, c := range []struct {
		line          string
		unix, windows bool
	}{
		{"Include config.d/slipway.conf", true, true},
		{"include config.d/*", true, true},
		{"INCLUDE=config.d/*.conf", true, true},
		{"  Include = \"config.d/*\"", true, true},
		{"Include 'config.d/*'", true, true},
		{"Include other config.d/*", true, true},
		{"Include ~/.ssh/config.d/*", true, true},
		{"Include ~/.ssh/config.d/[a-z]*", true, true},
		{"Include ~/.ssh/config.d/[!s]*", false, false},
		{"Include ~/*/config.d/*", false, false},
		{"Include ~/.ssh/*", false, false},
		{"Include ~alice/.ssh/config.d/*", false, false},
		{"Include %d/.ssh/config.d/*", false, false},
		{"Include /home/alice/.ssh/config.d/*", true, false},
		{`Include "C:\Users\alice b\.ssh\CONFIG.D\*"`, false, true},
		{`Include "C:/Users/Alice B/.ssh/config.d/slipway.conf"`, false, true},
		{"Include Config.d/*", false, true},
		{"Include config.d/slipway", false, false},
		{`Include "config.d/*`, false, false},
		{"# Include config.d/*", false, false},
		{"Include # config.d/*", false, false},
		{"IncludeX config.d/*", false, false},
		{"Include", false, false},
	} {
		if got := aliceOn(false).covered([]byte(c.line + "\n")); got != c.unix {
			t.Errorf("%s: %v, want %v", c.line, got, c.unix)
		}
		if got := aliceOn(true).covered([]byte(c.line + "\r\n")); got != c.windows {
			t.Errorf("%s on Windows: %v, want %v", c.line, got, c.windows)
		}
	}
}

func FuzzInclude(f *testing.F) {
	for _, s := range []string{"", "Host a\r\n", "\xef\xbb\xbfHost a", "Include config.d/*\n", mark + "\nInclude config.d/slipway.conf\n", "Include \"x\nInclude '"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, windows bool) {
		i := aliceOn(windows)
		with := i.add(text)
		if !i.covered(with) {
			t.Fatalf("%q does not include it", with)
		}
		if again := i.add(with); !bytes.Equal(again, with) {
			t.Fatalf("%q became %q the second time", with, again)
		}
		if !bytes.HasSuffix(with, bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
			t.Fatalf("%q became %q: not all is as it was", text, with)
		}
		if back := i.remove(with); !bytes.Equal(with, text) && !bytes.Equal(back, text) {
			t.Fatalf("%q became %q and then %q", text, with, back)
		}
	})
}
