package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// standing returns the container in which alice's next kernel waits, once its Python does.
func (s *site) standing() (id string) {
	s.t.Helper()
	s.eventually("a kernel stands by", func() bool {
		for _, w := range s.list("root", "sessions") {
			if id = w["id"].(string); !strings.HasPrefix(w["waiting"].(string), "stands by") {
				continue
			}
			top, _ := exec.Command("docker", "top", "slipway-"+id, "-eo", "pid,args").Output()
			if strings.Contains(string(top), "def standby()") {
				return true
			}
		}
		return false
	})
	return id
}

// lookAround prints what a kernel is, but for what its client has said, in one line: that is what prints reads.
const lookAround = `import os, sys
print(os.getuid(), os.getgid(), sorted(os.getgroups()), os.getcwd(), os.environ['HOME'], os.environ['USER'],
      os.path.basename(sys.argv[0]), oct(os.umask(2)), sys.flags, sorted(k for k in os.environ if not k.startswith('KERNEL_')),
      open('/proc/self/status').read().split('CapBnd:')[1].split()[0])`

// kernelThatStoodBy starts alice's first kernel cold and her second from the one that stood by, with the service killed
// on both sides of that: it is hers in every way, and as the first to look at.
func kernelThatStoodBy(t *testing.T, s *site, j *jupyter) {
	start := func(said string) (id string) {
		t.Helper()
		r := s.call("alice", "POST", "/kernels/api/kernels", map[string]any{"name": "warm", "env": map[string]string{"KERNEL_SAID": said}})
		return r.object(t)["id"].(string)
	}
	cold := j.open(start("one"))
	want := cold.prints(lookAround)
	spare := s.standing()
	for _, w := range s.list("alice", "sessions") {
		if w["id"] == spare {
			t.Errorf("alice is shown %v", w)
		}
	}
	env, _ := exec.Command("docker", "exec", "slipway-"+spare, "sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null").Output() // what has ended meanwhile has none
	if !strings.Contains(string(env), "HOME=") || strings.Contains(string(env), "KERNEL_SAID") {
		t.Errorf("what stands by has the environment %q", env)
	}
	s.kill()
	s.serve()
	if again := s.standing(); again != spare {
		t.Errorf("after a restart of the service %s stands by, %s before", again, spare)
	}
	begun := time.Now()
	second := start("two")
	s.kill()
	s.serve()
	warm := j.open(second)
	t.Logf("the kernel that stood by was up after %v, the service killed meanwhile", time.Since(begun))
	if got := warm.prints(lookAround); got != want {
		t.Errorf("it has\n%s, the first had\n%s", got, want)
	}
	if got := warm.prints("import os, socket; print(socket.gethostname(), os.environ['KERNEL_SAID'])"); !strings.Contains(got, " two") {
		t.Errorf("its client said two: %s", got)
	}
	found := false
	for _, w := range s.list("alice", "sessions") {
		found = found || w["id"] == spare
	}
	if !found {
		t.Errorf("it is not %s, which stood by: %v", spare, s.list("alice", "sessions"))
	}
	if out, err := exec.Command("docker", "inspect", "slipway-"+spare).Output(); err != nil || strings.Contains(string(out), second) {
		t.Errorf("docker knows what opens it (%v)", err)
	}
}
