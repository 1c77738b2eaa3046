package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// furnish makes what an environment is to tell of: modules that fail in different ways, checkouts, links, and what no
// image can hold.
const furnish = `set -e
site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p $site/needs_cuda $site/needs_driver /opt/env/conda-meta /opt/env/etc
echo 'raise ImportError("libcudart.so.12: cannot open shared object file: No such file or directory")' > $site/needs_cuda/__init__.py
echo 'raise ImportError("libcuda.so.1: cannot open shared object file: No such file or directory")' > $site/needs_driver/__init__.py
echo /cvmfs/atlas.cern.ch/python > $site/atlas.pth
ln -s /cvmfs/sft.cern.ch/lcg/views /opt/env/view
echo '{"name": "root", "version": "6.34.4", "build": "h1_0", "channel": "conda-forge", "files": []}' > /opt/env/conda-meta/root-6.34.4-h1_0.json
touch /opt/env/lib/libcudart.so.12.8.90
head -c 300000 /dev/urandom > /opt/env/etc/weights.bin
git init -q -b main /opt/env/ana && cd /opt/env/ana && echo 1 > a && git add a && git -c user.name=a -c user.email=a@b commit -q -m 1 && echo 2 > a
python3 - <<'PY'
import os, socket, struct
socket.socket(socket.AF_UNIX).bind("/opt/env/etc/s")
entries = [(1, 6, 0xffffffff), (2, 4, 12345), (4, 4, 0xffffffff), (16, 6, 0xffffffff), (32, 4, 0xffffffff)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
os.setxattr("/opt/env/etc/weights.bin", "system.posix_acl_access", acl)
PY
`

// TestWhatIsInIt: what a session was furnished with is told of its environment, and what its kernels had imported is
// tried in the image alone, also when the service dies meanwhile.
func TestWhatIsInIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.session("alice", "one")
	s.in("alice", furnish)
	r := s.call("alice", http.MethodPost, "/api/v1/sessions/"+id+"/freeze", map[string]any{
		"name": "ana", "cvmfs": []string{"cms.cern.ch"}, "imported": map[string][]string{
			"/opt/env/bin/python3": {"numpy", "needs_cuda", "needs_driver", "my_own_module"}, "/home/alice/venv/bin/python": {"numpy"},
		},
	})
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s.kill()
	s.serve()
	var shown string
	s.eventually("the imports are tried", func() bool {
		shown = s.says("alice", []string{"envs", "show", "ana"})
		return !strings.Contains(shown, "to be tried")
	})
	for _, want := range []string{
		"2 of the 4 modules that kernels had imported cannot be imported from the image alone, as a batch job has it",
		"cannot import needs_cuda: libcudart.so.12: cannot open shared object file: No such file or directory (tried without a GPU)",
		"cannot import my_own_module: there is no such module in it",
		"needs_driver could not be tried: it needs a GPU's driver, and there was none where it was tried",
		"/home/alice/venv/bin/python, by which kernels ran, is not in the environment",
		"sft.cern.ch: /opt/env/view", "atlas.cern.ch: /opt/env/lib/python3.13/site-packages/atlas.pth", "cms.cern.ch: the session used it",
		"12.8; needs driver 525.60.13 or newer", "/opt/env/ana, at ", "1 file modified", "1 of conda", "/opt/env/etc/weights.bin", "/opt/env/etc/s",
		"1 POSIX access list",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("not told: %q", want)
		}
	}
	if out, _ := s.outside("alice", "envs", "sbom", "ana"); !strings.Contains(out, `"referenceLocator": "sft.cern.ch"`) {
		t.Errorf("sbom: %.1000s", out)
	}
	// Something has changed, or it would be the same environment, and what the first freeze has seen.
	said := s.in("alice", `touch /opt/env/etc/more; python3 -c 'import numpy, time; open("/tmp/up", "w"); time.sleep(600)' & while ! [ -e /tmp/up ]; do sleep 0.1; done; slipway freeze --name seen 2>&1; kill %1 $!; true`)
	if !strings.Contains(said, "sha256:") {
		t.Fatal(said)
	}
	s.eventually("what a terminal's freeze has seen is tried", func() bool {
		shown = s.says("alice", []string{"envs", "show", "seen"})
		return !strings.Contains(shown, "to be tried")
	})
	if !strings.Contains(shown, "the 1 module that kernels had imported can be imported from the image alone") {
		t.Errorf("by the terminal: %s", shown)
	}
}
