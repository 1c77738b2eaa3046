package condortest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// usersGroup is the group of all users, as on hosts of Slipway.
const usersGroup = "100"

// AddUser makes an account on all machines, with a home of its own on each. One that is there already is right. A
// machine that is down gets it when it is revived.
func (p *Pool) AddUser(t testing.TB, name string, uid int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.addUser(name, uid); err != nil {
		t.Fatal(err)
	}
}

// addUser is for who holds the pool.
func (p *Pool) addUser(name string, uid int) error {
	if known, ok := p.accounts[name]; ok && known != uid {
		return fmt.Errorf("%s has uid %d in this pool, and not %d", name, known, uid)
	} else if ok {
		return nil
	}
	for _, m := range p.machines {
		if m.down {
			continue
		}
		if err := m.addAccount(name, uid); err != nil {
			return err
		}
	}
	p.accounts[name] = uid
	return nil
}

// makeUsers makes the accounts that a pool begins with.
func (p *Pool) makeUsers(o Options) error {
	for name, uid := range o.Users {
		if err := p.addUser(name, uid); err != nil {
			return err
		}
	}
	return nil
}

// addAccount makes one that may be there already.
func (m *machine) addAccount(name string, uid int) error {
	if _, err := m.run("id", "--user", name); err == nil {
		return nil
	}
	_, err := m.run(
		"useradd", "--uid", strconv.Itoa(uid), "--gid", usersGroup, "--create-home", "--shell", "/bin/sh", name,
	)
	return err
}

// As returns a command of HTCondor that runs at the access point in a directory of the pool's, as its user: known by a
// token and by nothing else.
func (p *Pool) As(t testing.TB, user, dir, command string, argv ...string) *exec.Cmd {
	t.Helper()
	token, err := p.mint(user)
	if err != nil {
		t.Fatal(err)
	}
	tokens := p.TempDir(t)
	if err := os.WriteFile(filepath.Join(tokens, "user"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), filepath.Join(p.Bin, command), argv...)
	c.Dir = dir
	c.Env = []string{"_CONDOR_SEC_TOKEN_DIRECTORY=" + tokens, "_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=IDTOKENS"}
	return c
}

// Admin runs a command of HTCondor at the access point as the pool's administrator, and returns what it wrote.
func (p *Pool) Admin(t testing.TB, command string, argv ...string) string {
	t.Helper()
	return p.machines[Main].must(t, append([]string{command}, argv...)...)
}

// Vacate has the worker give a running job up. The queue may learn last that it runs, and refuses until then.
func (p *Pool) Vacate(t testing.TB, job string) {
	t.Helper()
	Await(t, "job "+job+" is given up", func() bool {
		_, err := p.machines[Main].run("condor_vacate_job", job)
		return err == nil
	})
}

// mint returns a token of the pool for a user, or for its daemons.
func (p *Pool) mint(user string) (string, error) {
	out, err := p.machines[Main].run("condor_token_create", "-identity", user+"@"+Domain, "-key", "POOL")
	return strings.TrimSpace(out) + "\n", err
}
