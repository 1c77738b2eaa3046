package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSessionUse reads what the kernel tells of programs: libraries of packages, by interpreter, and whatever lies on
// CVMFS.
func TestSessionUse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"proc/10/maps": "7f00-7f01 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/torch/lib/libtorch.so\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/yaml/_yaml.cpython-313-x86_64-linux-gnu.so\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/pyzmq.libs/libzmq-1a2b.so.5\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/scikit_learn.libs/libgomp-1a2b.so\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/cython.abi3.so\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/plain.so\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/_cffi_backend.so\n" +
			"7f02-7f03 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/gone/x.so (deleted)\n" +
			"7f04-7f05 rw-p 00000000 00:00 0 [heap]\n7f06-7f07 r-xp 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n",
		"proc/11/maps":             "7f00-7f01 r-xp 00000000 00:2f 1 /usr/local/lib/python3.13/dist-packages/h5py/h5.so\n7f00-7f01 r--p 0 0:1 1 /cvmfs/sft.cern.ch/lcg/lib/libCore.so\n",
		"proc/11/environ":          "HOME=/cvmfs/home.cern.ch/x\x00LD_LIBRARY_PATH=/a:/cvmfs/atlas.cern.ch/lib:/cvmfs/sft.cern.ch\x00",
		"proc/self/maps":           "7f00-7f01 r-xp 00000000 00:2f 1 /opt/env/lib/python3.13/site-packages/never/x.so\n",
		"root/opt/env/bin/python3": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := &processes{proc: filepath.Join(dir, "proc"), root: filepath.Join(dir, "root"), modules: map[string]map[string]bool{}, cvmfs: map[string]bool{}}
	p.look()
	if d := cmp.Diff(map[string]map[string]bool{"/opt/env/bin/python3": {"torch": true, "yaml": true, "cython": true, "plain": true}, "": {"h5py": true}}, p.modules); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]bool{"sft.cern.ch": true, "atlas.cern.ch": true}, p.cvmfs); d != "" {
		t.Error(d)
	}
}

// TestPackagesInTheHome are told of before a freeze, but for those that the environment has too, and nothing where
// there are none.
func TestPackagesInTheHome(t *testing.T) {
	home, prefix := t.TempDir(), t.TempDir()
	search := filepath.Join(home, "bin") + ":bin:" + filepath.Join(prefix, "bin")
	var b strings.Builder
	if warnOfHome(&b, home, search); b.Len() > 0 {
		t.Errorf("an empty home: %q", b.String())
	}
	install := func(site, name, version string) {
		t.Helper()
		dir := filepath.Join(site, "python3.13/site-packages", name+"-"+version+".dist-info")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "METADATA"), fmt.Appendf(nil, "Name: %s\nVersion: %s\n", name, version), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range namedPackages + 4 {
		install(filepath.Join(home, ".local/lib"), fmt.Sprintf("p%02d", i), "1.0")
	}
	install(filepath.Join(home, "lib"), "p00", "1.0") // a Python in the home is in no environment
	install(filepath.Join(prefix, "lib"), "P01", "1.0")
	install(filepath.Join(prefix, "lib"), "p02", "0.9")
	for _, dir := range []string{home, prefix} {
		program := filepath.Join(dir, "bin/python3")
		if err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), os.WriteFile(program, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	warnOfHome(&b, home, search)
	for _, want := range []string{
		"would miss: p00 1.0, p02 1.0 (the environment has 0.9), p03 1.0, ", " and 3 more;\n", "ignore-installed p00 p02 p03 p04 p05 p06 p07 p08\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in %q", want, b.String())
		}
	}
	warnOfHome(&b, filepath.Join(home, "none"), "")
}
