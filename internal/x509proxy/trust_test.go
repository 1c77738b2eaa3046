package x509proxy

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
)

func TestRevocation(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	alice, bob := newPerson(t, root, "Alice"), newPerson(t, root, "Bob")
	file := proxyOf(t, alice, nil).file(t)
	at := newPlace(t, root)
	at.revokes(t, root, now.Add(time.Hour), bob)
	if _, err := check(at.checker(t, nil), file); err != nil {
		t.Errorf("another is revoked: %v", err)
	}
	at.revokes(t, root, now.Add(time.Hour), bob, alice)
	_, err := check(at.checker(t, nil), file)
	refused(t, "revoked", err, "was revoked by its authority on 22 November 2026 10:00:00 UTC")
	at.revokes(t, root, now.Add(-time.Minute))
	_, err = check(at.checker(t, nil), file)
	refused(t, "a list of old", err, "has expired")
	forged := newPlace(t, root)
	forgery := newAuthority(t, nil, "Root")
	forged.revokes(t, forgery, now.Add(time.Hour))
	_, err = check(forged.checker(t, nil), file)
	refused(t, "a list of an impostor", err, "is not signed by it")
}

// TestSeveralLists: what any sound one says counts, and one that is of no use is as good as none.
func TestSeveralLists(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	alice, bob := newPerson(t, root, "Alice"), newPerson(t, root, "Bob")
	file := proxyOf(t, alice, nil).file(t)
	sound := func(*x509.RevocationList) {}
	future := func(l *x509.RevocationList) { l.ThisUpdate = now.Add(time.Minute) }
	partial := func(l *x509.RevocationList) {
		l.ExtraExtensions = []pkix.Extension{{Id: oid("2.5.29.28"), Critical: true, Value: []byte{0x30, 0x03, 0x81, 0x01, 0xff}}} // of users' certificates alone
	}
	for title, test := range map[string]struct {
		first, second func(*x509.RevocationList)
		in            [2]*holder
		want          string
	}{
		"the second revokes":             {sound, sound, [2]*holder{bob, alice}, "was revoked by its authority"},
		"the first revokes":              {sound, sound, [2]*holder{alice, bob}, "was revoked by its authority"},
		"one of the future says nothing": {future, sound, [2]*holder{alice, bob}, ""},
		"one in part says nothing":       {partial, sound, [2]*holder{bob, bob}, ""},
		"the sound one revokes":          {partial, sound, [2]*holder{bob, alice}, "was revoked by its authority"},
		"none is sound: of the future":   {partial, future, [2]*holder{bob, bob}, "is not valid yet"},
		"none is sound: of users' alone": {future, partial, [2]*holder{bob, bob}, "has a critical extension"},
	} {
		at := newPlace(t, root)
		at.list(t, 0, root, test.first, test.in[0])
		at.list(t, 1, root, test.second, test.in[1])
		_, err := check(at.checker(t, nil), file)
		if test.want == "" && err != nil {
			t.Errorf("%s: %v", title, err)
		} else if test.want != "" {
			refused(t, title, err, test.want)
		}
	}
}

func TestPolicy(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	file := proxyOf(t, newPerson(t, root, "Alice"), nil).file(t)
	for _, test := range []struct {
		title, subjects string
		ok              bool
	}{
		{"all of the Grid", `'"/C=XX/O=Grid/*"'`, true},
		{"one of two", `'"/C=YY/*" "/C=XX/O=Grid/CN=Al?ce"'`, true},
		{"without quotes", `'/C=XX/*'`, true},
		{"another country", `'"/C=YY/*"'`, false},
		{"the beginning alone", `'"/C=XX/O=Grid"'`, false},
		{"none", `''`, false},
	} {
		at := newPlace(t, root)
		at.put(t, "00000000.signing_policy", "# of the authority\n access_id_CA\tX509\t'/C=XX/O=Grid/CN=Root'\n pos_rights globus CA:sign\n cond_subjects  globus  "+test.subjects+"\n")
		_, err := check(at.checker(t, nil), file)
		if test.ok && err != nil {
			t.Errorf("%s: %v", test.title, err)
		} else if !test.ok {
			refused(t, test.title, err, "may not vouch for")
		}
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		ok            bool
	}{
		{"", "", true}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false}, {"a*b*c", "axbxbxc", true}, {"?", "", false},
		{"a?c", "abc", true}, {"abc", "ab", false}, {"ab", "abc", false}, {"a**", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
	} {
		if got := matches(test.pattern, test.name); got != test.ok {
			t.Errorf("matches(%q, %q) = %t", test.pattern, test.name, got)
		}
	}
}

func TestDirectoryIsReadAgain(t *testing.T) {
	root, second := newAuthority(t, nil, "Root"), newAuthority(t, nil, "Second")
	at := newPlace(t, root)
	c := at.checker(t, nil)
	file := proxyOf(t, newPerson(t, second, "Alice"), nil).file(t)
	_, err := check(c, file)
	refused(t, "before", err, "no authority that this site trusts")
	at.trust(t, second)
	if _, err := check(c, file); err != nil {
		t.Errorf("after: %v", err)
	}
	before, _ := c.trust.read()
	if again, _ := c.trust.read(); again != before {
		t.Error("a directory that has not changed is read again")
	}
	if err := os.Remove(filepath.Join(at.dir, "00000001.0")); err != nil {
		t.Fatal(err)
	}
	_, err = check(c, file)
	refused(t, "removed", err, "no authority that this site trusts")
}

func TestDirectoryWithFaults(t *testing.T) {
	root := newAuthority(t, nil, "Root")
	at := newPlace(t, root)
	at.put(t, "11111111.0", "nonsense")
	at.put(t, "22222222.0", certificatePEM(newPerson(t, root, "Alice").cert))
	at.put(t, "33333333.r0", "nonsense")
	at.put(t, "44444444.namespaces", "nonsense")
	at.put(t, "root.pem", "nonsense")
	at.put(t, "root.info", "nonsense")
	at.put(t, "5555555.0", "nonsense")
	if err := os.Symlink("nowhere", filepath.Join(at.dir, "66666666.0")); err != nil {
		t.Fatal(err)
	}
	faults, err := at.checker(t, nil).Faults()
	if text := strings.Join(faults, "\n"); err != nil || len(faults) != 4 || !strings.Contains(text, "22222222.0: it is not the certificate of an authority") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestNoDirectory(t *testing.T) {
	for title, dir := range map[string]string{"missing": filepath.Join(t.TempDir(), "x"), "empty": t.TempDir()} {
		_, err := Open(Config{Trust: dir})
		if e, ok := err.(*errs.Error); !ok || e.Kind != errs.Unavailable || e.Remedy == "" {
			t.Errorf("%s: %v", title, err)
		}
	}
}
