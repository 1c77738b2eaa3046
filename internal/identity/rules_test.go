package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
)

func rulesOf(t *testing.T, cfg RulesConfig) *Rules {
	t.Helper()
	r, err := NewRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSubjects(t *testing.T) {
	r := rulesOf(t, RulesConfig{Subjects: []Rule{
		{Of: "wlcg", Claim: "preferred_username", Match: `^([a-z]+)$`, Gives: "$1"},
		{Of: "wlcg", Claim: "sub", Match: `^x|y$`, Gives: "halves"},
		{Of: "wlcg", Claim: "sub", Match: `^desy-([a-z]+)$`, Gives: "@desy/${1}"},
	}})
	for _, tc := range []struct {
		who, issuer string
		claims      map[string]string
		says        string // of an error; empty: she is
	}{
		{"alice", "wlcg", map[string]string{"preferred_username": "alice", "sub": "1"}, ""},
		{"bob", "wlcg", map[string]string{"preferred_username": "alice", "sub": "1"}, `is the user "alice" (identities.subjects, rule 1), and you are "bob"`},
		{"@desy/alice", "wlcg", map[string]string{"sub": "desy-alice"}, ""},
		{"alice", "wlcg", map[string]string{"sub": "desy-alice"}, `@desy/alice`},
		{"alice", "wlcg", map[string]string{"preferred_username": "Alice Smith", "sub": "1"}, "is nobody here"},
		{"alice", "wlcg", nil, "is nobody here"},
		{"halves", "wlcg", map[string]string{"sub": "xz"}, "is nobody here"},
		{"alice", "wlcg", map[string]string{"preferred_username": "alice\nbob"}, "is nobody here"},
		{"alice", "egi", map[string]string{"sub": "anybody"}, ""},
	} {
		by, err := r.Subject(tc.who, tc.issuer, tc.claims)
		if (err == nil) != (tc.says == "") || err != nil && (!strings.Contains(err.Error(), tc.says) || !errs.Is(err, errs.Forbidden)) {
			t.Errorf("%s with %v: %q, %v", tc.who, tc.claims, by, err)
		}
		if (by == "") != (err != nil || tc.issuer == "egi") {
			t.Errorf("%s with %v: by %q", tc.who, tc.claims, by)
		}
	}
}

func TestCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gridmap")
	text := "# who\n\"/DC=ch/CN=Alice Smith\" alice,al\n/DC=ch/emailAddress=b@x/CN=bob bob\n\"/atlas/*\" .atlas\n\"/DC=ch/CN=pool\" .pool\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rulesOf(t, RulesConfig{Gridmap: file, Certificates: []Rule{{Match: `^/DC=ch/DC=cern/CN=([a-z]+)/CN=[^/]*$`, Gives: "$1"}}})
	for _, tc := range []struct {
		who, dn string
		ok      bool
	}{
		{"alice", "/DC=ch/CN=Alice Smith", true},
		{"al", "/DC=ch/CN=Alice Smith", true},
		{"bob", "/DC=ch/CN=Alice Smith", false},
		{"bob", "/DC=ch/Email=b@x/CN=bob", true},
		{"carol", "/DC=ch/DC=cern/CN=carol/CN=Carol Lee", true},
		{"carol", "/DC=ch/DC=cern/CN=carol/CN=Carol/CN=more", false},
		{"carol", "/O=x/DC=ch/DC=cern/CN=carol/CN=Carol", false},
		{"pool", "/DC=ch/CN=pool", false},
		{"carol", "/DC=ch/DC=cern/CN=carol/CN=" + strings.Repeat("x", 600), false},
	} {
		if by, err := r.Certificate(tc.who, tc.dn); (err == nil) != tc.ok || tc.ok && by == "" {
			t.Errorf("%s with %.60s: %q, %v", tc.who, tc.dn, by, err)
		}
	}
	if by, err := rulesOf(t, RulesConfig{}).Certificate("anybody", "/CN=x"); by != "" || err != nil {
		t.Errorf("without rules: %q, %v", by, err)
	}
}

func TestAccountNames(t *testing.T) {
	r := rulesOf(t, RulesConfig{Accounts: []Rule{{Of: Site, Match: `^([a-z]+)@uni\.example$`, Gives: "$1"}}})
	for who, want := range map[[2]string]string{{Site, "alice@uni.example"}: "alice", {Site, "alice"}: "", {Site, "alice@uni.example.evil"}: "", {"desy", "alice"}: "@desy/alice"} {
		got, err := r.AccountName(who[0], who[1])
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%v: %q, %v", who, got, err)
		}
	}
	if name, err := rulesOf(t, RulesConfig{}).AccountName(Site, "alice"); name != "alice" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if _, err := NewRules(RulesConfig{Accounts: []Rule{{Of: Site, Match: "(.*)", Gives: "$1"}}}); err == nil {
		t.Error("a rule without anchors was taken")
	}
}
