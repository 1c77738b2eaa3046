package testenv

import (
	"net"
	"testing"
)

// Bridge returns the address by which containers reach servers of this host. It is taken from the interface of the
// Docker Engine's first network: the engine itself says it only from its second start on.
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
