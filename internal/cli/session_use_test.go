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

// TestSessionUse reads what the kernel tells of programs: libraries of packages, by interpreter, and whatever lies on CVMFS.
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

// TestPackagesInTheHome are told of before a freeze, and nothing where there are none.
func TestPackagesInTheHome(t *testing.T) {
	home := t.TempDir()
	var b strings.Builder
	if warnOfHome(&b, home); b.Len() > 0 {
		t.Errorf("an empty home: %q", b.String())
	}
	for i := range namedPackages + 2 {
		dir := filepath.Join(home, fmt.Sprintf(".local/lib/python3.13/site-packages/p%d-1.0.dist-info", i))
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "METADATA"), fmt.Appendf(nil, "Name: p%d\nVersion: 1.0\n", i), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	warnOfHome(&b, home)
	if !strings.Contains(b.String(), "would miss: p0 1.0, p1 1.0") || !strings.Contains(b.String(), "and 2 more;\n") || !strings.HasSuffix(b.String(), "ignore-installed p0 p1 p2 p3 p4 p5 p6 p7\n") {
		t.Errorf("%q", b.String())
	}
	warnOfHome(&b, filepath.Join(home, "none"))
}
