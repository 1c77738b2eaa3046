package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestDefaultRulesAreExplainedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range DefaultRules() {
		if err := checkRule(r.Pattern); err != nil || r.Why == "" || seen[r.Pattern] {
			t.Errorf("rule %+v: %v", r, err)
		}
		seen[r.Pattern] = true
	}
	if n := len(DefaultStrip()); n != len(seen) {
		t.Errorf("%d patterns of %d rules", n, len(seen))
	}
}

// What earlier environments were stripped of stays stripped.
func TestRulesOfTheBeginningStay(t *testing.T) {
	for _, pattern := range []string{
		"/home/*", "/root/.aws", "/root/.azure", "/root/.bash_history", "/root/.cache", "/root/.config/gcloud", "/root/.config/gh", "/root/.condor",
		"/root/.docker", "/root/.git-credentials", "/root/.globus", "/root/.gnupg", "/root/.huggingface", "/root/.ipython/profile_*/history.sqlite*",
		"/root/.jupyter", "/root/.kube", "/root/.lesshst", "/root/.local/share/jupyter/runtime", "/root/.netrc", "/root/.node_repl_history",
		"/root/.npmrc", "/root/.pypirc", "/root/.python_history", "/root/.ssh", "/root/.vault-token", "/root/.viminfo", "/root/.wget-hsts",
		"/root/.zsh_history", "/run/*", "/tmp/*", "/var/tmp/*", "/var/cache/apt/*.bin", "/var/cache/apt/archives/*", "/var/lib/apt/lists/*",
		"/var/log/*.log", "/var/log/apt/*", "/var/log/journal/*", "/etc/ssh/ssh_host_*", "/etc/krb5.keytab", "/etc/grid-security/hostkey.pem",
		"/etc/condor/passwords.d/*", "/etc/condor/tokens.d/*",
	} {
		if !slices.Contains(DefaultStrip(), pattern) {
			t.Errorf("%s is not stripped any more", pattern)
		}
	}
}

func TestInstalledSoftwareInAHomeTravels(t *testing.T) {
	s, err := NewStrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"root/.local/lib/python3.12/site-packages/x.py", "root/.local/bin/x", "root/.config/matplotlib/matplotlibrc", "root/.bashrc", "root/.julia/packages/x",
		"root/.local/share/jupyter/kernels/x/kernel.json", "root/.local/share/jupyter/nbextensions/x", "opt/conda/pkgs/x-1/lib/x", "etc/ssl/certs/x.pem",
	} {
		rules, stripped := s.Top(), false
		for part := range strings.SplitSeq(path, "/") {
			if stripped, rules = rules.Enter(part); stripped {
				t.Errorf("%q is stripped", path)
				break
			}
		}
	}
}

func TestExplain(t *testing.T) {
	want := []Rule{{"/home/*", whyMounted}, {"/data", "a rule of the site"}, {"/root/.ssh", whyKey}}
	if d := cmp.Diff(want, Explain([]string{"/home/*", "/data", "/root/.ssh"})); d != "" {
		t.Error(d)
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
