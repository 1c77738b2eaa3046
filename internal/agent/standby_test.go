package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
	"slipway/internal/testenv"
)

// standing returns the process that stands by, once it waits for its order.
func (r *rig) standing(t *testing.T) (pid int) {
	t.Helper()
	eventually(t, "a Python waits for its order", func() bool {
		for _, p := range process.Below(process.List("/proc"), os.Getpid()) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
			call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", p))
			if strings.Contains(string(line), "def standby()") && strings.HasPrefix(string(call), "0 0x3 ") {
				env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p))
				if pid = p; strings.Contains(string(env), "HOME="+r.dir+"\x00") {
					return true
				}
			}
		}
		return false
	})
	return pid
}

const tellAll = `import os, sys
print(os.getpid(), os.getcwd(), os.environ["KERNEL_X"], os.path.basename(sys.argv[0]), sys.argv[1], sys.orig_argv[1:3], "standby" in globals(), os.path.exists("/proc/self/fd/3") and os.readlink("/proc/self/fd/3").startswith("pipe"), "IPython.core.historyapp" in sys.modules)`

// A kernel that stood by is as any other, but for what is loaded of Python's modules.
func TestStandbyBecomesAKernel(t *testing.T) {
	testenv.Need(t, testenv.IPyKernel)
	for name, stale := range map[string]bool{"at once": false, "anew, where modules have changed": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			mine := filepath.Join(r.dir, "lib")
			if err := os.Mkdir(mine, 0o755); err != nil {
				t.Fatal(err)
			}
			app := ipykernel(r.dir)
			app.Launch, app.Standby, app.Env["PYTHONPATH"] = "l0", true, mine
			if err := r.client.Launch(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			pid := r.standing(t)
			if st, err := r.client.Status(t.Context()); err != nil || st.State != control.Idle || st.Launch != "" {
				t.Errorf("meanwhile %+v, %v", st, err)
			}
			if stale {
				if err := os.WriteFile(filepath.Join(mine, "psutil.py"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			app.Launch, app.Standby, app.Env["KERNEL_X"] = "l1", false, "said"
			r.launch(t, app, control.Ready)
			c, in, _ := r.talk(t, "one")
			out, _ := cellPrints(t, c, in, tellAll)
			want := fmt.Sprintf("%d %s said ipykernel_launcher.py -f ['-m', 'ipykernel_launcher'] False False %s", pid, r.cfg.WorkDir, map[bool]string{true: "False", false: "True"}[stale])
			if out != want {
				t.Errorf("%q\nwanted %q", out, want)
			}
			restartApp(t, r)
		})
	}
}

// What the kernel would begin otherwise does not become it.
func TestStandbyOfAnotherEnvironment(t *testing.T) {
	testenv.Need(t, testenv.IPyKernel)
	r := newRig(t)
	app := ipykernel(r.dir)
	app.Launch, app.Standby = "l0", true
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	pid := r.standing(t)
	app.Launch, app.Standby, app.Env["PYTHONHASHSEED"] = "l1", false, "1"
	r.launch(t, app, control.Ready)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		t.Error("it is still there")
	}
}

func TestWhichKernelsStandBy(t *testing.T) {
	for line, want := range map[string]string{
		"python3 -m ipykernel_launcher -f x":                             "[] [-f x]",
		"/usr/bin/python3.13 -Xfrozen_modules=off -m ipykernel_launcher": "[-Xfrozen_modules=off] []",
		"python3 -X dev -m ipykernel_launcher":                           "",
		"python3 -m other -m ipykernel_launcher":                         "",
		"R --slave -m ipykernel_launcher":                                "",
		"python3 kernel.py -m ipykernel_launcher":                        "",
		"python3 -m": "",
	} {
		flags, rest, ok := pythonKernel(strings.Fields(line))
		if got := fmt.Sprint(flags, rest); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s %t", line, got, ok)
		}
	}
	if got := early([]string{"A=b", "KERNEL_X=1", "X509_USER_PROXY=/p", "KERNELS=1"}); !slices.Equal(got, []string{"A=b", "KERNELS=1"}) {
		t.Errorf("%v", got)
	}
}
