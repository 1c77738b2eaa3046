package testenv

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Instance returns a name for an instance of the service that keeps its data in dir, a test's temporary directory. No
// other run has it: a service without records does not become ready while containers of its instance run, such as those
// that a killed test has left.
func Instance(kind, dir string) string {
	return kind + "-" + filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir)
}

// DropInstance removes at the end of a test what an instance of the service keeps of networks and control groups.
func DropInstance(t testing.TB, name string) {
	t.Cleanup(func() {
		dropNetworks(t, name)
		dropGroups(t, name)
	})
}

// dropNetworks removes an instance's networks. An engine has some thirty.
func dropNetworks(t testing.TB, instance string) {
	ids, err := exec.Command(
		"docker", "network", "ls", "--quiet", "--filter", "label=slipway.instance="+instance,
	).Output()
	if err != nil {
		t.Errorf("list the networks of %s: %v", instance, err)
	}
	for _, id := range strings.Fields(string(ids)) {
		if out, err := exec.Command("docker", "network", "rm", id).CombinedOutput(); err != nil {
			t.Errorf("a network of %s is left: %v: %s", instance, err, out)
		}
	}
}

// dropGroups removes an instance's control groups, in which nothing must run any more.
func dropGroups(t testing.TB, instance string) {
	var groups []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path+"/", "/"+instance+"/") {
			groups = append(groups, path)
		}
		return nil // others come and go meanwhile
	})
	for _, dir := range slices.Backward(groups) {
		if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
			t.Errorf("a control group of %s is left: %v", instance, err)
		}
	}
}
