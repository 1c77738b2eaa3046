package images

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway/images/records"
	"slipway/images/tree/treetest"
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

// openDir makes a directory that every user can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slipway")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o711))
	return dir
}

func TestApptainerSeesTheEnvironment(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Apptainer, testenv.Busybox)
	f := newFixture(t, busyboxBase)
	f.change(func(root string) error {
		return errors.Join(os.Remove(filepath.Join(root, "opt/deleted")), os.RemoveAll(filepath.Join(root, "opt/dir")),
			write(filepath.Join(root, "opt/dir/new"), "from the session"), write(filepath.Join(root, "root/.netrc"), "password"))
	})
	l := openLibrary(t, Config{Dir: filepath.Join(openDir(t), "library")})
	image := l.dir.Image(freeze(t, l, f, func(r *Request) {
		r.Source.Config.Entrypoint, r.Source.Config.Cmd = []string{"/bin/echo", "it's the"}, []string{"default"}
	}).Digest)
	for _, who := range []string{"root", "nobody"} {
		t.Run(who, func(t *testing.T) {
			script := `echo "${PATH%%:/usr/local*}"; echo "$GREETING"; cat /opt/dir/new; echo; ls /opt /opt/dir; test -e /root/.netrc || echo stripped; echo "$HOME"`
			out := runApptainer(t, who, "exec", image, "sh", "-c", script)
			want := "/opt/tools:/usr/bin:/bin\nit's \"$HOME\" `x` \\\nnew \\\nfrom the session\n/opt:\ndir\n\n/opt/dir:\nnew\nstripped\n"
			if !strings.HasPrefix(out, want) || strings.Contains(out, "/home/image") {
				t.Errorf("exec says\n%s\nwant\n%s", out, want)
			}
			if out := runApptainer(t, who, "run", image); out != "" { // a shell that has nothing to read
				t.Errorf("run says %q", out)
			}
			if out := runApptainer(t, who, "run", image, "echo", "two words"); out != "two words\n" {
				t.Errorf("run with a command says %q", out)
			}
		})
	}
	cmd := exec.Command("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", testenv.ApptainerPath(), "inspect", image)
	cmd.Env = append(os.Environ(), "HOME=/tmp", "APPTAINER_CACHEDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if says := string(out); err != nil || !strings.Contains(says, "slipway.base: ") || !strings.Contains(says, "build-arch: "+runtime.GOARCH) {
		t.Errorf("inspect: %v: %s", err, says)
	}
}

// apptainerArgv runs Apptainer as root or as somebody else.
func apptainerArgv(who string, options []string, verb string, args ...string) []string {
	argv := slices.Concat([]string{testenv.ApptainerPath(), "-q"}, options, []string{verb, "--no-home"})
	if who == "root" {
		argv = append(argv, "--drop-caps", "CAP_SYS_RESOURCE")
	} else {
		argv = append([]string{"setpriv", "--reuid", who, "--regid", "nogroup", "--clear-groups"}, argv...)
	}
	return append(argv, args...)
}

func runApptainer(t *testing.T, who, verb string, args ...string) string {
	t.Helper()
	argv := apptainerArgv(who, nil, verb, args...)
	cmd := exec.Command(argv[0], argv[1:]...)
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

// nothingOfTheHost is a configuration by which Apptainer mounts nothing over an image but what a program cannot do
// without.
const nothingOfTheHost = `
mount home = no
mount tmp = no
mount devpts = no
config passwd = no
config group = no
config resolv_conf = no
user bind control = yes
`

// insider lists the tree that Apptainer shows.
type insider struct{ program, config string }

// listerProgram makes an insider when the first test wants it.
func listerProgram(t *testing.T) func() insider {
	return sync.OnceValue(func() insider {
		dir := openDir(t)
		i := insider{filepath.Join(dir, "lister"), filepath.Join(dir, "apptainer.conf")}
		must(t, os.Rename(treetest.Program(t), i.program), os.WriteFile(i.config, []byte(nothingOfTheHost), 0o644))
		return i
	})
}

// list returns the tree of an image as who sees it. The program takes the place of a file that every environment has.
func (i insider) list(t *testing.T, who, image string, skip ...string) []string {
	t.Helper()
	const place = "/.singularity.d/runscript"
	argv := apptainerArgv(who, []string{"--config", i.config}, "exec", "--no-mount", "cwd,bind-paths", "--bind", i.program+":"+place, image, place)
	return treetest.Inside(t, "APPTAINERENV_", argv, []string{"HOME=/", "APPTAINER_CACHEDIR=" + t.TempDir()}, append(skip, "dev", "proc", "sys")...)
}

// equalInApptainer compares what Apptainer shows of an environment with its source.
func equalInApptainer(t *testing.T, l *Library, f *fixture, e records.Environment, program func() insider) {
	t.Helper()
	t.Run("apptainer", func(t *testing.T) {
		testenv.Need(t, testenv.Apptainer)
		skip := f.leftOutOf(l, e)
		want := f.lines(append(skip, "dev", "proc", "sys")...)
		same := func(who string, see func([]string) []string) {
			got := program().list(t, who, l.dir.Image(e.Digest), skip...)
			// The root directory is one of Apptainer's own, with the image's attributes and today's time.
			tell(t, who, treetest.Diff(treetest.Timeless(untimed(l, see(want)), "/"), treetest.Timeless(untimed(l, see(got)), "/")))
		}
		same("root", slices.Clone)
		same("nobody", treetest.Readable)
	})
}
