// Package condortest runs a real HTCondor pool for tests: HTCondor 23.9 with Apptainer in containers of the image that
// deploy/images/htcondor makes. One container is the pool's own machine: central manager, access point and worker.
// Others are workers that accept no connection from outside, as behind a site's firewall.
//
// A package has one pool for all its tests:
//
//	var shared condortest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
//	func TestReal(t *testing.T) {
//		testenv.Need(t, testenv.HTCondor)
//		pool := shared.Pool(t)           // started by the first test that asks
//		pool.AddUser(t, "alice", 41234)  // on all machines; the identity alice@slipway.test
//		dir := pool.TempDir(t)           // here and at the access point, at the same path
//		...
//
// Start returns a pool of the test's own, with workers or a configuration of its own, and New one to a program that is no
// test, as deploy/dev/pool. The access point is this host as far as a program can tell: the commands in Pool.Bin
// (condor_submit, condor_q, condor_token_create ...) run there with the caller's working directory and HTCondor's
// variables, as root; jobs' files lie below Pool.Dir, which has the same path there. Outside of Pool.Dir it shares no
// file with this host. What workers can reach of this host is Pool.Address, and nothing beyond: listen there.
//
// Promises: no packet leaves this machine, unless by Options.Outward; whatever was started is gone when the test
// program is, even one that is killed; pools of several test programs do not meet. The package must not know the
// backend, for the backend's tests are its users.
package condortest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

// Domain is what the pool calls its users: alice@slipway.test.
const Domain = "slipway.test"

// Main is the name of the pool's own machine.
const Main = "pool"

// label marks containers and networks; its value is the pool's mark.
const label = "slipway.condortest"

// Options say what a pool has beside its own machine. The zero value is a good pool.
type Options struct {
	Workers []Worker
	Config  string // more of HTCondor's configuration for the pool's own machine
	CPUs    int    // of the pool's own machine, as it tells; 0: 16. -1: it runs no jobs, only the workers do
	// Share are more directories of this host that the access point sees, at the same paths.
	Share []string
	Users map[string]int // accounts that all machines have from the beginning: uids by name
	// Outward lets the machines reach what this host reaches, and their jobs ask for names as it does: for people, who
	// install packages.
	Outward bool
}

// Worker is one more machine that runs jobs.
type Worker struct {
	Name   string   // unique: part of a host name
	Config string   // more of HTCondor's configuration
	CPUs   int      // as it tells; 0: 4
	Shared bool     // sees Pool.Dir too, as a shared file system
	Binds  []string // of this host, as docker run --volume takes them
	// Stacked: jobs run on the container's own file system, on which the kernel's overlay cannot be stacked. Elsewhere
	// it can.
	Stacked bool
}

// Pool is a pool that runs.
type Pool struct {
	Bin     string // the commands, by their names
	Dir     string // at the same path here, at the access point and on workers that share it; anybody may pass through
	Address string // this host's, as the machines of the pool see it; they know it as HostName too

	mark     string
	outward  bool
	image    string
	machines map[string]*machine
	reaper   *testenv.Reaper

	mu       sync.Mutex     // guards what follows, and which machines are up
	accounts map[string]int // that all machines have which are up: uids by name
}

// HostName is this host's name for the machines of the pool.
const HostName = "service." + Domain

// Start returns a pool of the test's own, which ends with it. It is ready: every machine has offered its slots.
func Start(t testing.TB, o Options) *Pool {
	t.Helper()
	testenv.Need(t, testenv.HTCondor)
	p, err := New(o)
	t.Cleanup(func() {
		if t.Failed() {
			p.tell(t)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// New returns a pool that ends with Close, or with the program. It returns one also when it fails, for then there is
// something to close.
func New(o Options) (*Pool, error) {
	p := &Pool{mark: newMark(), outward: o.Outward, machines: map[string]*machine{}, accounts: map[string]int{}}
	p.Dir = "/var/tmp/slipway-pool-" + p.mark // short: sockets lie below it
	p.Bin = filepath.Join(p.Dir, "bin")
	var err error
	if p.image, err = testenv.HTCondorImage(); err != nil {
		return p, err
	}
	if p.reaper, err = testenv.NewReaper(label, p.mark, p.Dir); err != nil {
		return p, err
	}
	for _, step := range []func(Options) error{p.makeDirs, p.makeNetwork, p.startMain, p.startWorkers, p.makeUsers, p.makeCommands, p.awaitSlots} {
		if err := step(o); err != nil {
			return p, fmt.Errorf("start a pool: %w", err)
		}
	}
	return p, nil
}

// Close ends the pool and removes all of it.
func (p *Pool) Close() error {
	if p.reaper == nil {
		return nil
	}
	return p.reaper.Reap()
}

// TempDir returns a directory below Dir that anybody may pass through, and that goes with the test.
func (p *Pool) TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(p.Dir, "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// SmallImage copies a SIF of a few megabytes to a path: a static busybox, /bin/sh and /etc/passwd.
func (p *Pool) SmallImage(t testing.TB, path string) {
	t.Helper()
	p.machines[Main].must(t, "cp", "/usr/local/share/small.sif", path)
}

// Await asks until something is so. It fails the test after some minutes, which a pool on an idle machine never needs.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, is)
}

func (p *Pool) makeDirs(Options) error {
	for _, dir := range []string{p.Dir, p.Bin, p.etc()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(p.Dir, 0o755) // whatever the umask
}

// etc holds what the machines are told.
func (p *Pool) etc() string { return filepath.Join(p.Dir, "etc") }

// awaitSlots waits until each machine that runs jobs says that it can run images.
func (p *Pool) awaitSlots(o Options) error {
	want := len(o.Workers)
	if o.CPUs >= 0 {
		want++
	}
	var said string
	slots := func() bool {
		out, err := p.machines[Main].run(
			"condor_status", "-constraint", "HasSIF && SlotID == 1 && PartitionableSlot", "-af", "Machine",
		)
		if said = out; err != nil {
			said = err.Error()
		}
		return err == nil && len(strings.Fields(out)) == want
	}
	if err := p.awaited(slots); err != nil {
		return fmt.Errorf("of %d machines these can run images: %s: %w", want, said, err)
	}
	return p.awaited(func() bool {
		_, err := p.machines[Main].run("condor_q", "-allusers")
		return err == nil
	})
}

// awaited waits for what the machines do, unless one of them has ended.
func (p *Pool) awaited(is func() bool) (err error) {
	done := testenv.Within(testenv.Hang, func() bool {
		if is() {
			return true
		}
		for _, m := range p.machines {
			err = errors.Join(err, p.located(m))
		}
		return err != nil
	})
	if !done {
		err = fmt.Errorf("not within %s", testenv.Hang)
	}
	return err
}

// newMark returns the word that the names of all of a pool's parts end with.
func newMark() string {
	b := make([]byte, 5)
	rand.Read(b)
	return hex.EncodeToString(b)
}
