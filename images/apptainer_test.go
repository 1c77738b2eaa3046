package images

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

func busyboxBase(root string) error {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	errList := []error{write(filepath.Join(root, "bin/busybox"), string(data)), os.Chmod(filepath.Join(root, "bin/busybox"), 0o755)}
	for _, applet := range []string{"sh", "cat", "env", "ls", "echo", "test"} {
		errList = append(errList, os.Symlink("busybox", filepath.Join(root, "bin", applet)))
	}
	return errors.Join(append(errList, write(filepath.Join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n"),
		write(filepath.Join(root, "opt/deleted"), "x"), write(filepath.Join(root, "opt/dir/old"), "x"))...)
}

func TestApptainerSeesTheEnvironment(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mksquashfs, testenv.Apptainer, testenv.Busybox)
	f := newFixture(t, busyboxBase)
	f.change(func(root string) error {
		return errors.Join(os.Remove(filepath.Join(root, "opt/deleted")), os.RemoveAll(filepath.Join(root, "opt/dir")),
			write(filepath.Join(root, "opt/dir/new"), "from the session"), write(filepath.Join(root, "root/.netrc"), "password"))
	})
	dir, err := os.MkdirTemp("", "slipway")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o711))
	l := openLibrary(t, Config{Dir: filepath.Join(dir, "library")})
	image := l.blob(freeze(t, l, f, func(r *Request) {
		r.Source.Config.Entrypoint, r.Source.Config.Cmd = []string{"/bin/echo", "it's the"}, []string{"default"}
	}).Digest)
	for _, who := range []string{"root", "nobody"} {
		t.Run(who, func(t *testing.T) {
			script := `echo "${PATH%%:/usr/local*}"; echo "$GREETING"; cat /opt/dir/new; echo; ls /opt /opt/dir; test -e /root/.netrc || echo stripped; echo "$HOME"`
			out := apptainer(t, who, "exec", image, "sh", "-c", script)
			want := "/opt/tools:/usr/bin:/bin\nit's \"$HOME\" `x` \\\nnew \\\nfrom the session\n/opt:\ndir\n\n/opt/dir:\nnew\nstripped\n"
			if !strings.HasPrefix(out, want) || strings.Contains(out, "/home/image") {
				t.Errorf("exec says\n%s\nwant\n%s", out, want)
			}
			if out := apptainer(t, who, "run", image); out != "it's the default\n" {
				t.Errorf("run says %q", out)
			}
			if out := apptainer(t, who, "run", image, "two words"); out != "it's the two words\n" {
				t.Errorf("run with an argument says %q", out)
			}
		})
	}
}

func apptainer(t *testing.T, who, verb string, args ...string) string {
	t.Helper()
	argv := []string{testenv.ApptainerPath(), "-q", verb, "--no-home"}
	if who == "root" {
		argv = append(argv, "--drop-caps", "CAP_SYS_RESOURCE")
	} else {
		argv = append([]string{"setpriv", "--reuid", who, "--regid", "nogroup", "--clear-groups"}, argv...)
	}
	cmd := exec.Command(argv[0], append(argv[1:], args...)...)
	cmd.Dir = "/tmp"
	cmd.Env = append(os.Environ(), "HOME=/tmp", "APPTAINER_CACHEDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", argv, err, stderr.String())
	}
	return string(out)
}
