package apptainer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzQuote lets a real shell read what quote wrote.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "it's", `"$HOME" \ back\`, "a\nb", "`x`", "$(x)", "*", "~", "!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "\x00") {
			return
		}
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+quote(s)+"; echo .").Output()
		if err != nil || string(out) != s+".\n" {
			t.Errorf("the shell reads %q as %q, %v", s, out, err)
		}
	})
}

func TestExportsLeaveTheCallersValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env.sh")
	must(t, os.WriteFile(file, []byte(exports([]string{
		"PATH=/image:/usr/bin:/bin", "SET=image", "UNSET=image", "HOME=/image", "UID=0", "BAD-NAME=x", "x y=z", "novalue", "EMPTY=", "=x", "A=b=c",
	})), 0o600))
	cmd := exec.Command("/bin/sh", "-ec", ". "+quote(file)+`; echo "$PATH,$SET,$UNSET,$HOME,${EMPTY-none},$A"`)
	cmd.Env = []string{"PATH=/bin", "SET=caller", "HOME=/caller"}
	out, err := cmd.CombinedOutput()
	if want := "/image:/usr/bin:/bin,caller,image,/caller,,b=c\n"; err != nil || string(out) != want {
		t.Errorf("out %q, %v; want %q", out, err, want)
	}
}

func TestRunscript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runscript")
	must(t, os.WriteFile(file, []byte(runscript), 0o600))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a command":       {[]string{"/bin/echo", "a b", "$x"}, "a b $x\n"},
		"a shell of PATH": {nil, "0 /image/bin\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", append([]string{file}, tc.args...)...)
			cmd.Env, cmd.Stdin = []string{"PATH=/image/bin"}, strings.NewReader("echo $# $PATH\n")
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != tc.want {
				t.Errorf("out %q, %v; want %q", out, err, tc.want)
			}
		})
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
