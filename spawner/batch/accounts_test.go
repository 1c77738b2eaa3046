package batch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/errs"
)

// TestOwners: a job is its user's only where the access point knows the user by the same number, and never of an account
// that is nobody's.
func TestOwners(t *testing.T) {
	down := errs.New(errs.Unavailable, "the table does not answer")
	table := func(login string) (int, int, error) {
		switch login {
		case "alice":
			return 1001, 100, nil
		case "slipway":
			return 900, 900, nil
		case "toor":
			return 0, 0, nil
		case "down":
			return 0, 0, down
		default:
			return 0, 0, noAccount("htcondor", "HTCondor", login)
		}
	}
	for name, tc := range map[string]struct {
		all   string
		login string
		uid   int
		want  owner
		kind  errs.Kind
	}{
		"the same":          {"", "alice", 1001, owner{"alice", 1001, 7}, 0},
		"another number":    {"", "alice", 1002, owner{}, errs.Forbidden},
		"unknown there":     {"", "bob", 1002, owner{}, errs.Forbidden},
		"the table is down": {"", "down", 1002, owner{}, errs.Unavailable},
		"root":              {"", "root", 1001, owner{}, errs.Forbidden},
		"uid 0":             {"", "alice", 0, owner{}, errs.Forbidden},
		"uid 0 there":       {"", "toor", 1001, owner{}, errs.Forbidden},
		"condor":            {"", "condor", 1001, owner{}, errs.Forbidden},
		"nobody":            {"", "nobody", 1001, owner{}, errs.Forbidden},
		"no word":           {"", "a b", 1001, owner{}, errs.Invalid},
		"all are of one":    {"slipway", "bob", 1002, owner{"slipway", 900, 900}, 0},
		"all are of root":   {"toor", "bob", 1002, owner{}, errs.Forbidden},
		"all are of none":   {"bob", "bob", 1002, owner{}, errs.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			b := inMemory(t, Config{Owner: tc.all, Lookup: func(login string) (int, int, error) {
				asked++
				return table(login)
			}}, newCluster())
			_, launch := played(t, newCluster())
			l := launch(1)
			l.Account.Login, l.Account.UID, l.Account.GID = tc.login, tc.uid, 7
			for range 3 {
				got, err := b.ownerOf(l)
				e, _ := errors.AsType[*errs.Error](err)
				if got != tc.want || (err != nil) != (tc.kind != 0) || err != nil && (e == nil || e.Kind != tc.kind || e != down && e.Remedy == "") {
					t.Errorf("%+v, %v", got, err)
				}
			}
			if asked > 1 || tc.kind == 0 && asked == 0 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// TestRefusedOwner: what is refused for its owner leaves nothing, and HTCondor is told of none of it.
func TestRefusedOwner(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	l.Account.UID++
	if err := b.Start(t.Context(), l); !errs.Is(err, errs.Forbidden) || s.count(submitted) > 0 || b.records.Has(l.ID) {
		t.Errorf("Start = %v after %d submissions", err, s.count(submitted))
	}
}

// TestGetent: the numbers come from the getent beside HTCondor's commands, or from this host's table.
func TestGetent(t *testing.T) {
	dir := t.TempDir()
	find := func(login string) (uid, gid int, err error) {
		return lookup(Config{Name: "htcondor", Bin: dir}, "HTCondor", login)
	}
	if uid, gid, err := find("root"); err != nil || uid != 0 || gid != 0 {
		t.Errorf("root is %d, %d, %v", uid, gid, err)
	}
	if _, _, err := find("no-such-user-here"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v", err)
	}
	script := "#!/bin/sh\ncase $3 in alice) echo alice:x:1001:100:A:/home/alice:/bin/sh ;; odd) echo odd ;; down) exit 1 ;; *) exit 2 ;; esac\n"
	must(t, os.WriteFile(filepath.Join(dir, getent), []byte(script), 0o755))
	if uid, gid, err := find("alice"); err != nil || uid != 1001 || gid != 100 {
		t.Errorf("alice is %d, %d, %v", uid, gid, err)
	}
	if _, _, err := find("root"); !errs.Is(err, errs.Forbidden) {
		t.Errorf("whom the access point does not know: %v", err)
	}
	if _, _, err := find("odd"); !errs.Is(err, errs.Unavailable) {
		t.Errorf("an odd line: %v", err)
	}
	if _, _, err := find("down"); err == nil || errs.Is(err, errs.Forbidden) {
		t.Errorf("a table that does not answer: %v", err)
	}
}

// FuzzPasswd: a line names the account that was asked for, or is refused.
func FuzzPasswd(f *testing.F) {
	f.Add("alice:x:1001:100:A:/home/alice:/bin/sh", "alice")
	f.Add("alice:x:-1:100:::", "alice")
	f.Fuzz(func(t *testing.T, line, login string) {
		uid, gid, err := parsePasswd(line, login)
		if err == nil && (uid < 0 || gid < 0) {
			t.Errorf("%q: %d, %d", line, uid, gid)
		}
	})
}
