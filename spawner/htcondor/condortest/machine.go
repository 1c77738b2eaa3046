package condortest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// machine is one container.
type machine struct {
	name      string // within the pool
	container string
	site      string // the directory of its own configuration
	pid       string // of its first process, by the host's count
	address   string
	down      bool // it was killed
}

// machinePath is where programs are looked for inside.
const machinePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command runs as root inside, without the container engine: it costs a tenth of the time.
func (m *machine) command(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(
		ctx, "nsenter", append([]string{"--target", m.pid, "--mount", "--uts", "--ipc", "--net", "--"}, argv...)...,
	)
	c.Env = []string{machinePath, "HOME=/root", "LANG=C.UTF-8"}
	return c
}

func (m *machine) run(argv ...string) (string, error) {
	return output(m.command(context.Background(), argv...))
}

func (m *machine) must(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := m.run(argv...)
	if err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	return out
}

// filter changes the packet filter of the machine's network. The program is the host's.
func (m *machine) filter(rule ...string) error {
	_, err := output(
		exec.Command("nsenter", append([]string{"--target", m.pid, "--net", "--", "iptables", "--wait"}, rule...)...),
	)
	return err
}

// output runs a command and returns what it wrote. What it complained of is in the error.
func output(c *exec.Cmd) (string, error) {
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}

func docker(argv ...string) (string, error) {
	out, err := output(exec.Command("docker", argv...))
	return strings.TrimSpace(out), err
}

// makeNetwork makes one from which no packet is forwarded, unless by Options.Outward: its machines see each other and
// this host.
func (p *Pool) makeNetwork(o Options) error {
	argv := []string{"network", "create", "--label", p.label(), p.network()}
	if !o.Outward {
		argv = append(argv, "--internal")
	}
	if _, err := docker(argv...); err != nil {
		return err
	}
	var err error
	p.Address, err = docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", p.network())
	if err == nil && p.Address == "" {
		err = fmt.Errorf("network %s has no gateway", p.network())
	}
	return err
}

func (p *Pool) network() string { return "slipway-pool-" + p.mark }

func (p *Pool) label() string { return label + "=" + p.mark }

// startMain starts the machine that has the pool's daemons and its queue.
func (p *Pool) startMain(o Options) error {
	cpus := o.CPUs
	if cpus == 0 {
		cpus = 16
	}
	daemons := "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD"
	if cpus > 0 {
		daemons += ", STARTD"
	}
	own := "DAEMON_LIST = " + daemons + "\n" + room(max(cpus, 1)) + SimulatedGPUs + o.Config
	access := Worker{Name: Main, Config: own, Shared: true}
	for _, dir := range o.Share {
		access.Binds = append(access.Binds, dir+":"+dir)
	}
	return p.startMachine(access)
}

// startWorkers starts the others once the collector answers. A worker that asks too early registers with its CCB a
// minute later, and until its next update, in five, the queue knows no way to it.
func (p *Pool) startWorkers(o Options) error {
	answers := func() bool {
		out, err := p.machines[Main].run("condor_status", "-collector", "-af", "Name")
		return err == nil && strings.TrimSpace(out) != ""
	}
	if len(o.Workers) > 0 {
		if err := p.awaited(answers); err != nil {
			return fmt.Errorf("the collector does not answer: %w", err)
		}
	}
	for _, w := range o.Workers {
		if err := p.startWorker(w); err != nil {
			return err
		}
	}
	return nil
}

// room is what a machine says it has. Jobs in tests need next to nothing of it.
func room(cpus int) string {
	return fmt.Sprintf("NUM_CPUS = %d\nMEMORY = %d\n", cpus, cpus*1024)
}

// SimulatedGPUs has HTCondor find GPUs that are not there, a whole V100 and seven parts of another card, and the
// machine say so.
const SimulatedGPUs = "use FEATURE: GPUs\nGPU_DISCOVERY_EXTRA = -extra -simulate:2,1,6,1\n" +
	"SlipwaySimulated = True\nSTARTD_ATTRS = $(STARTD_ATTRS) SlipwaySimulated\n"

// startWorker starts a machine whose daemons are reached only through connections that they opened themselves.
func (p *Pool) startWorker(w Worker) error {
	cpus := w.CPUs
	if cpus == 0 {
		cpus = 4
	}
	w.Config = "DAEMON_LIST = MASTER, STARTD\nCCB_ADDRESS = $(COLLECTOR_HOST)\n" + room(cpus) + w.Config
	if err := p.startMachine(w); err != nil {
		return err
	}
	return p.machines[w.Name].closeInbound(p.outward)
}

func (p *Pool) startMachine(w Worker) error {
	m := &machine{
		name: w.Name, container: "slipway-pool-" + p.mark + "-" + w.Name, site: filepath.Join(p.etc(), w.Name),
	}
	secrets := filepath.Join(p.etc(), w.Name+".secrets")
	if err := errors.Join(os.Mkdir(m.site, 0o755), os.Mkdir(secrets, 0o700), p.makeSecret(w.Name, secrets)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.site, "00-machine.conf"), []byte(w.Config), 0o644); err != nil {
		return err
	}
	p.machines[w.Name] = m
	if _, err := docker(p.runArgv(m, secrets, w)...); err != nil {
		return err
	}
	return p.located(m)
}

// makeSecret writes the key that the pool's tokens are signed with, for the pool's own machine, and for a worker a
// token by which its daemons are known as the pool's.
func (p *Pool) makeSecret(name, dir string) error {
	if name == Main {
		return os.WriteFile(filepath.Join(dir, "POOL"), []byte(rand.Text()), 0o600)
	}
	token, err := p.mint("condor")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pool"), []byte(token), 0o600)
}

// runArgv starts a machine. Apptainer without setuid needs what is unconfined here, and no capability.
func (p *Pool) runArgv(m *machine, secrets string, w Worker) []string {
	argv := []string{
		"run", "--detach", "--name", m.container, "--label", p.label(), "--hostname", m.name + "." + Domain,
		"--network", p.network(),
		"--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined", "--device", "/dev/fuse",
		"--volume", m.site + ":/etc/condor/site.d:ro", "--add-host", HostName + ":" + p.Address,
	}
	if !p.outward {
		argv = append(argv, "--dns", "127.0.0.1") // the engine would ask this host's
	}
	if main := p.machines[Main]; main != m {
		argv = append(argv, "--add-host", Main+"."+Domain+":"+main.address, "--volume", secrets+":/etc/condor/tokens.d")
	} else {
		argv = append(argv, "--volume", secrets+":/etc/condor/passwords.d")
	}
	if w.Shared {
		argv = append(argv, "--volume", p.Dir+":"+p.Dir)
	}
	for _, bind := range w.Binds {
		argv = append(argv, "--volume", bind)
	}
	if !w.Stacked {
		argv = append(argv, "--volume", "/var/lib/condor/execute")
	}
	return append(argv, p.image)
}

// located asks where the machine's namespaces are, which each start of it makes anew, and tells the commands.
func (p *Pool) located(m *machine) error {
	out, err := docker(
		"inspect", "--format", "{{.State.Pid}} {{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", m.container,
	)
	if err != nil {
		return err
	}
	pid, address, _ := strings.Cut(out, " ")
	if n, err := strconv.Atoi(pid); err != nil || n == 0 {
		logs, _ := docker("logs", "--tail", "20", m.container)
		return fmt.Errorf("machine %s does not run: %s", m.name, logs)
	}
	m.pid, m.address = pid, address
	return os.WriteFile(filepath.Join(p.etc(), m.name+".pid"), []byte(pid+"\n"), 0o644)
}
