package tree

import (
	"strings"
	"testing"

	"slipway/internal/errs"
)

func TestStripRules(t *testing.T) {
	s, err := NewStrip([]string{"/opt/*/cache", "/opt/?/x", "/data"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"home/alice": true, "home/.hidden": true, "home": false, "homes/alice": false, "opt/a/cache": true, "opt/a/b/cache": false,
		"opt/a/x": true, "opt/ab/x": false, "data": true, "root/.ssh": true, "root/.sshx": false, "var/log/apt": false, "var/log/apt/term.log": true,
		"home/a\nb": true, "run/\xff": true, "root/.ipython/profile_default/history.sqlite-journal": true,
	} {
		rules, stripped := s.Top(), false
		for part := range strings.SplitSeq(path, "/") {
			if stripped, rules = rules.Enter(part); stripped {
				break
			}
		}
		if stripped != want {
			t.Errorf("%q stripped: %v", path, stripped)
		}
	}
}

func TestBadRulesAreNamed(t *testing.T) {
	for _, rule := range []string{"", "/", "a", "/a/", "/a//b", "/a/../b", "/a/[", "a/b"} {
		if _, err := NewStrip([]string{rule}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "strip") {
			t.Errorf("rule %q: %v", rule, err)
		}
	}
}

func TestRulesAreOneSortedList(t *testing.T) {
	s, err := NewStrip([]string{"/zz", "/aa", "/zz", "/home/*"})
	if err != nil {
		t.Fatal(err)
	}
	rules := s.Rules()
	if len(rules) != len(DefaultStrip())+2 || rules[0] != "/aa" || rules[len(rules)-1] != "/zz" {
		t.Errorf("rules %q", rules)
	}
	rules[0] = "changed"
	if s.Rules()[0] != "/aa" {
		t.Error("a caller can change the rules")
	}
}

func FuzzStrip(f *testing.F) {
	f.Add("/home/*", "home")
	f.Add("/a/[x-z]?", "a")
	f.Fuzz(func(t *testing.T, rule, name string) {
		s, err := NewStrip([]string{rule})
		if err != nil {
			return
		}
		if stripped, below := s.Top().Enter(name); stripped && len(below) > 0 {
			t.Errorf("%q is stripped and entered", name)
		}
	})
}

func FuzzSplitNames(f *testing.F) {
	f.Add([]byte("user.a\x00trusted.b\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, name := range splitNames(raw) {
			if name == "" || strings.Contains(name, "\x00") {
				t.Errorf("name %q", name)
			}
		}
	})
}
