package testenv

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Bridge returns the address by which containers reach servers of this host. It is taken from the interface of the Docker Engine's first
// network: the engine itself says it only from its second start on.
func Bridge(t testing.TB) string {
	t.Helper()
	i, err := net.InterfaceByName("docker0")
	if err != nil {
		t.Fatalf("the Docker Engine's interface: %v", err)
	}
	all, err := i.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Fatalf("the Docker Engine's interface docker0 has no address: %v", all)
	return ""
}

// DropNetworks removes at the end of a test what an instance of the service has made of networks. An engine has some thirty.
func DropNetworks(t testing.TB, instance string) {
	t.Cleanup(func() {
		ids, err := exec.Command("docker", "network", "ls", "--quiet", "--filter", "label=slipway.instance="+instance).Output()
		if err != nil {
			t.Errorf("list the networks of %s: %v", instance, err)
		}
		for _, id := range strings.Fields(string(ids)) {
			if out, err := exec.Command("docker", "network", "rm", id).CombinedOutput(); err != nil {
				t.Errorf("a network of %s is left: %v: %s", instance, err, out)
			}
		}
	})
}

// Instance returns a name for an instance of the service that keeps its data in dir, a test's temporary directory. No other run has it: a
// service without records does not become ready while containers of its instance run, such as those that a killed test has left.
func Instance(kind, dir string) string {
	return kind + "-" + filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir)
}
