package identity

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/store"
	"slipway/internal/testenv"
)

// looking makes accounts whose numbers come from look.
func looking(t *testing.T, look Look) *Accounts {
	t.Helper()
	testenv.Need(t, testenv.Root)
	dir := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), filepath.Join(dir, "slipway.db"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	a, err := New(Config{Store: s, First: 20000, Last: 20999, GID: 100, Homes: filepath.Join(dir, "homes"), Look: look})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNoTwoUsersShareANumber(t *testing.T) {
	numbers := map[string]int{"alice": 1001, "bob": 1001, "carol": 1003, "root": 0, "daemon": 999, "nobody": 65534, "huge": 1<<30 + 1}
	a := looking(t, func(_ context.Context, _, user string) (Numbers, error) {
		return Numbers{UID: numbers[user], GID: 100, Login: user, Groups: []Group{{27, "sudo"}, {5001, "with space"}, {5000, "higgs"}, {5000, "twice"}, {100, "users"}}}, nil
	})
	alice, err := a.Account(t.Context(), Site, "alice")
	if err != nil || alice.UID != 1001 || !reflect.DeepEqual(alice.Groups, []Group{{5000, "higgs"}, {5001, "g5001"}}) {
		t.Fatalf("alice is %+v, %v", alice, err)
	}
	if _, err := a.Account(t.Context(), Site, "bob"); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "which is that of alice") {
		t.Errorf("bob has alice's number: %v", err)
	}
	if _, err := a.Account(t.Context(), "desy", "alice"); !errs.Is(err, errs.Conflict) {
		t.Errorf("alice of another realm: %v", err)
	}
	for _, user := range []string{"root", "daemon", "nobody", "huge"} {
		if _, err := a.Account(t.Context(), Site, user); !errs.Is(err, errs.Forbidden) {
			t.Errorf("%s: %v", user, err)
		}
	}
	if bound, _ := a.Bound(t.Context()); len(bound) != 1 {
		t.Errorf("bound are %v", bound)
	}
}

// TestANumberThatChanges: what is there belongs to the old one, until the administrator has seen to it.
func TestANumberThatChanges(t *testing.T) {
	uid := 1001
	var err error
	a := looking(t, func(_ context.Context, _, user string) (Numbers, error) {
		return Numbers{UID: uid, GID: 100, Login: user}, err
	})
	if _, fault := a.Account(t.Context(), Site, "alice"); fault != nil {
		t.Fatal(fault)
	}
	uid = 1002
	_, fault := a.Account(t.Context(), Site, "alice")
	if !errs.Is(fault, errs.Conflict) || !strings.Contains(fault.Error(), "1002 now") || !strings.Contains(fault.Error(), "accounts release alice") {
		t.Errorf("another number: %v", fault)
	}
	err = errs.New(errs.Unavailable, "down")
	if _, fault := a.Account(t.Context(), Site, "alice"); !errs.Is(fault, errs.Unavailable) {
		t.Errorf("not known just now: %v", fault)
	}
	err = errs.New(errs.Missing, "this host has no account").With("make it")
	_, fault = a.Account(t.Context(), Site, "alice")
	if !errs.Is(fault, errs.Unavailable) || !strings.Contains(fault.Error(), "make it; if the account is gone for good, `slipway accounts release alice`") {
		t.Errorf("a directory that is down says that there is none: %v", fault)
	}
	if _, fault := a.Account(t.Context(), Site, "bob"); !errs.Is(fault, errs.Missing) {
		t.Errorf("bob never had one: %v", fault)
	}
	err = nil
	if uid, err := a.Release(t.Context(), "alice"); err != nil || uid != 1001 {
		t.Fatal(uid, err)
	}
	if after, err := a.Account(t.Context(), Site, "alice"); err != nil || after.UID != 1002 {
		t.Errorf("released: %+v, %v", after, err)
	}
	if _, err := a.Release(t.Context(), "nobody"); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

// TestTheRangeAfterOthers: numbers that came from elsewhere are not given out.
func TestTheRangeAfterOthers(t *testing.T) {
	a := looking(t, func(_ context.Context, _, user string) (Numbers, error) {
		return Numbers{UID: 20000, GID: 100, Login: user}, nil
	})
	if _, err := a.Account(t.Context(), Site, "alice"); err != nil {
		t.Fatal(err)
	}
	a.cfg.Look = nil
	bob, err := a.Account(t.Context(), Site, "bob")
	if err != nil || bob.UID != 20001 {
		t.Errorf("bob is %+v, %v", bob, err)
	}
	if again, err := a.Account(t.Context(), Site, "alice"); err != nil || again.UID != 20000 {
		t.Errorf("alice is %+v, %v", again, err)
	}
}

// TestARealAccount: an account of this host is found with its groups, by the modules of this host.
func TestARealAccount(t *testing.T) {
	testenv.Need(t, testenv.Root)
	name := fmt.Sprintf("slipway-t%d", os.Getpid()%100000)
	for _, argv := range [][]string{
		{"groupadd", "--gid", "47110", name + "-g"}, {"useradd", "--no-create-home", "--uid", "47109", "--gid", "100", "--groups", name + "-g,adm", name},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", argv[0], err, out)
		}
		undo := map[string][]string{"groupadd": {"groupdel", name + "-g"}, "useradd": {"userdel", name}}[argv[0]]
		t.Cleanup(func() { _ = exec.Command(undo[0], undo[1]).Run() })
	}
	n, err := NewNSS("").Account(t.Context(), name)
	if err != nil || n.UID != 47109 || n.GID != 100 || !slices.Contains(n.Groups, Group{47110, name + "-g"}) || !slices.Contains(n.Groups, Group{4, "adm"}) {
		t.Fatalf("%+v, %v", n, err)
	}
	if n, err = n.check(); err != nil || !reflect.DeepEqual(n.Groups, []Group{{47110, name + "-g"}}) {
		t.Errorf("%+v, %v: a group of the host's own is left out", n.Groups, err)
	}
}

// TestNamesThatAreNoAccounts: what getent would take for a number, an option or a line of its own is not asked.
func TestNamesThatAreNoAccounts(t *testing.T) {
	nss := NewNSS("")
	for _, name := range []string{"", "0", "1000", "-s", "a\nb", "root:x", "a b", "@desy/alice", "\x00", "has-surely-no-account", strings.Repeat("x", 300)} {
		if _, err := nss.Account(t.Context(), name); !errs.Is(err, errs.Missing) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// getent makes a false one.
func getent(t *testing.T, script string) *NSS {
	t.Helper()
	path := filepath.Join(t.TempDir(), "getent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return NewNSS(path)
}

// TestADirectoryThatIsSlow: it is waited for so long and no longer, and what comes late is nobody's answer.
func TestADirectoryThatIsSlow(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "up")
	nss := getent(t, "[ -e "+flag+" ] || exec sleep 600\n[ $1 = passwd ] && echo alice:x:1001:100::/home/alice:/bin/sh\nexit 0\n")
	nss.patience = 300 * time.Millisecond
	began := time.Now()
	if _, err := nss.Account(t.Context(), "alice"); !errs.Is(err, errs.Unavailable) || time.Since(began) > testenv.Hang {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nss.patience = 30 * time.Second
	if n, err := nss.Account(t.Context(), "alice"); err != nil || n.UID != 1001 {
		t.Errorf("it is there: %+v, %v", n, err)
	}
}

// TestADirectoryThatIsStrange: an answer that is not of the one who was asked for is no answer.
func TestADirectoryThatIsStrange(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		kind   errs.Kind
	}{
		"another case":    {"echo Alice:x:1001:100::/home/alice:/bin/sh", errs.Missing},
		"somebody else":   {"echo bob:x:1002:100::/home/bob:/bin/sh", errs.Missing},
		"two lines":       {"printf 'alice:x:1001:100::/:/bin/sh\\nalice:x:0:0::/:/bin/sh\\n'", errs.Unavailable},
		"half a line":     {"echo alice:x:1001", errs.Unavailable},
		"nothing":         {"exit 0", errs.Unavailable},
		"no number":       {"echo alice:x:-1:100::/:/bin/sh", errs.Invalid},
		"not found":       {"exit 2", errs.Missing},
		"it fails":        {"exit 1", errs.Unavailable},
		"it is killed":    {"kill -9 $$", errs.Unavailable},
		"its groups fail": {"[ $1 = passwd ] || exit 1; echo alice:x:1001:100::/:/bin/sh", errs.Unavailable},
		"groups of bob":   {"[ $1 = passwd ] && exec echo alice:x:1001:100::/:/bin/sh; echo bob 5000", errs.Unavailable},
	} {
		if _, err := getent(t, tc.script).Account(t.Context(), "alice"); !errs.Is(err, tc.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATableIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		next := path + ".new"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(next, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	write("# who\nalice 1001 100,5000=higgs,5001\n\"carol lee\" 1003 100\n@desy/alice 1004 100\n", 0o644)
	table, err := NewTable(path)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := table.Account(t.Context(), "alice")
	if want := (Numbers{UID: 1001, GID: 100, Groups: []Group{{5000, "higgs"}, {5001, ""}}, Login: "alice"}); err != nil || !reflect.DeepEqual(alice, want) {
		t.Errorf("%+v, %v", alice, err)
	}
	if carol, err := table.Account(t.Context(), "carol lee"); err != nil || carol.UID != 1003 {
		t.Errorf("%+v, %v", carol, err)
	}
	if other, err := table.Account(t.Context(), "@desy/alice"); err != nil || other.UID != 1004 || other.Login != "alice" {
		t.Errorf("%+v, %v", other, err)
	}
	for step, tc := range []struct {
		text string
		mode os.FileMode
		kind errs.Kind
	}{{"bob 1002 100\n", 0o644, errs.Missing}, {"alice 1001 100\nbob 1001 100\n", 0o644, errs.Unavailable}, {"alice 1001 100\n", 0o666, errs.Unavailable}, {"alice 1005 100\n", 0o644, 0}} {
		write(tc.text, tc.mode)
		n, err := table.Account(t.Context(), "alice")
		if tc.kind == 0 && (err != nil || n.UID != 1005) || tc.kind != 0 && !errs.Is(err, tc.kind) {
			t.Errorf("step %d: %+v, %v", step, n, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Account(t.Context(), "alice"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("it is gone: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("alice:x:1001:100::/home/alice:/bin/sh\n")
	f.Add("\"a b\" 1001 100,5000=x\n\"/DC=ch/CN=x\" a,b\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parsePasswd([]byte(text), "alice"); err == nil && n.Login != "alice" {
			t.Errorf("%q is %+v", text, n)
		}
		table, err := parseTable("x", text)
		seen := map[int]bool{}
		for user, n := range table {
			if err != nil || n.UID < leastID || seen[n.UID] || check(user) != nil {
				t.Errorf("%q: %+v, %v", text, table, err)
			}
			seen[n.UID] = true
		}
		_, _ = parseGridmap("x", text)
		_, _ = parseInitgroups([]byte(text), "alice")
		parseNames([]byte(text))
	})
}
