package condortest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// closeInbound lets nobody open a connection to the machine. Where its jobs ask for names, the answers come in.
func (m *machine) closeInbound(outward bool) error {
	var answers error
	if outward {
		answers = m.filter("--append", "INPUT", "--protocol", "udp", "--source-port", "53", "--jump", "ACCEPT")
	}
	return errors.Join(
		answers,
		m.filter("--append", "INPUT", "!", "--in-interface", "lo", "--protocol", "tcp", "--syn", "--jump", "DROP"),
		m.filter("--append", "INPUT", "!", "--in-interface", "lo", "--protocol", "udp", "--jump", "DROP"),
	)
}

// Cut parts a machine's network from all others, without a word to either side. Heal undoes it, and so does the end of
// the test.
func (p *Pool) Cut(t testing.TB, name string) {
	t.Helper()
	m := p.machine(t, name)
	err := errors.Join(
		m.filter("--insert", "INPUT", "!", "--in-interface", "lo", "--jump", "DROP"),
		m.filter("--insert", "OUTPUT", "!", "--out-interface", "lo", "--jump", "DROP"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Heal(t, name) })
}

// Heal undoes Cut. A machine that is not cut stays as it is.
func (p *Pool) Heal(t testing.TB, name string) {
	t.Helper()
	m := p.machine(t, name)
	if m.filter("--check", "INPUT", "!", "--in-interface", "lo", "--jump", "DROP") != nil {
		return
	}
	err := errors.Join(
		m.filter("--delete", "INPUT", "!", "--in-interface", "lo", "--jump", "DROP"),
		m.filter("--delete", "OUTPUT", "!", "--out-interface", "lo", "--jump", "DROP"),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// Kill ends a machine at once, with all that runs on it. Revive starts it again, and so does the end of the test.
func (p *Pool) Kill(t testing.TB, name string) {
	t.Helper()
	m := p.machine(t, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := docker("kill", m.container); err != nil {
		t.Fatal(err)
	}
	m.down = true
	t.Cleanup(func() { p.Revive(t, name) })
}

// Revive starts a machine that was killed. One that runs stays as it is.
func (p *Pool) Revive(t testing.TB, name string) {
	t.Helper()
	m := p.machine(t, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !m.down {
		return
	}
	if err := p.restart(m); err != nil {
		t.Fatal(err)
	}
	m.down = false
}

// restart has a machine as it was before it was killed.
func (p *Pool) restart(m *machine) error {
	if _, err := docker("start", m.container); err != nil {
		return err
	}
	was := m.address
	if err := p.located(m); err != nil {
		return err
	}
	if m.address != was {
		return fmt.Errorf("machine %s was at %s and is at %s: nobody would find it", m.name, was, m.address)
	}
	for name, uid := range p.accounts {
		if err := m.addAccount(name, uid); err != nil {
			return err
		}
	}
	if m.name == Main {
		return nil
	}
	return m.closeInbound(p.outward)
}

// Pause has nothing on a machine run, while its connections stay open. Resume undoes it, and so does the end of the
// test.
func (p *Pool) Pause(t testing.TB, name string) {
	t.Helper()
	m := p.machine(t, name)
	if _, err := docker("pause", m.container); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Resume(t, name) })
}

// Resume undoes Pause. A machine that is not paused stays as it is.
func (p *Pool) Resume(t testing.TB, name string) {
	t.Helper()
	m := p.machine(t, name)
	if state, err := docker("inspect", "--format", "{{.State.Paused}}", m.container); err == nil && state == "false" {
		return
	}
	if _, err := docker("unpause", m.container); err != nil {
		t.Fatal(err)
	}
}

// Configure gives a machine one more piece of configuration until the end of the test, and has its daemons read it.
func (p *Pool) Configure(t testing.TB, name, file, text string) {
	t.Helper()
	m := p.machine(t, name)
	path := filepath.Join(m.site, file)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		m.must(t, "condor_reconfig")
	})
	m.must(t, "condor_reconfig")
}

// machine returns one by its name.
func (p *Pool) machine(t testing.TB, name string) *machine {
	t.Helper()
	m := p.machines[name]
	if m == nil {
		t.Fatalf("the pool has no machine %q", name)
	}
	return m
}

// tell shows the end of what the daemons wrote.
func (p *Pool) tell(t testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.machines {
		if m.pid == "" || m.down {
			continue
		}
		out, err := m.run("sh", "-c", `cd /var/log/condor && for f in *Log* ; do echo "-- $f"; tail -n 25 "$f"; done`)
		t.Logf("logs of %s: %s %v", m.name, out, err)
	}
}
