package homes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// TestMain is also the program that looks.
func TestMain(m *testing.M) {
	testenv.EndAtOnce()
	if len(os.Args) == 3 && os.Args[1] == "look" {
		if err := Look(os.Stdout, os.Args[2]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newHomes(t *testing.T) *Homes {
	t.Helper()
	testenv.Need(t, testenv.Root)
	return New(Config{Program: programOf(t), Deadline: time.Minute})
}

func programOf(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, "look"}
}

func parse(t *testing.T, text string) Template {
	t.Helper()
	p, err := Parse("path", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func alice() Who { return Who{Name: "Alice", Realm: "site", Login: "alice", UID: 20001, GID: 100} }

func must(t *testing.T, all ...error) {
	t.Helper()
	for _, err := range all {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"/nfs/home/{initial}/{name}": "/nfs/home|a/Alice", "/h/{login}.{uid}/x": "/h|alice.20001/x", "/data": "/data|", "/{realm}": "/|site",
	} {
		p := parse(t, text)
		rest, err := p.fill(alice())
		if got := p.root + "|" + strings.Join(rest, "/"); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "data", "/a/../b", "/a//b", "/a/", "/{nam}", "/{name", "/name}", "/{{name}}", "/{}", "/a\nb"} {
		if p, err := Parse("path", text); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

func TestNamesThatLeaveTheDirectory(t *testing.T) {
	p := parse(t, "/h/{name}")
	for _, name := range []string{"..", ".", "a/b", "../etc", "", ".hidden", "a\x00b", "a\nb", "-rf", "физик", strings.Repeat("x", 200)} {
		if rest, err := p.fill(Who{Name: name}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %q, %v", name, rest, err)
		}
	}
}

func TestMadeAndFoundAgain(t *testing.T) {
	h, dir := newHomes(t), t.TempDir()
	w := Want{
		Template: parse(t, dir+"/deep/homes/{initial}/{name}"), Who: alice(),
		Checks: Checks{Create: true, Hers: true},
	}
	for range 2 {
		got, err := h.Find(t.Context(), w)
		if err != nil || got.Path != dir+"/deep/homes/a/Alice" {
			t.Fatalf("%+v, %v", got, err)
		}
		info, err := os.Lstat(got.Path)
		if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != 20001 {
			t.Errorf("%v, %v", info, err)
		}
		if l, ok := Tightest(got.Limits); !ok || l.Most == 0 || l.Used == 0 {
			t.Errorf("limits %+v", got.Limits)
		}
	}
	bob := w
	bob.Who = Who{Name: "Alice", UID: 20002, GID: 100}
	if _, err := h.Find(t.Context(), bob); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "user id 20002, but of 20001") {
		t.Errorf("another's home: %v", err)
	}
}

func TestRefused(t *testing.T) {
	h := newHomes(t)
	tests := map[string]struct {
		prepare func(dir string) error
		change  func(*Want)
		kind    errs.Kind
		words   string
	}{
		"missing": {nil, func(w *Want) { w.Create = false }, errs.Missing, "there is no "},
		"a link":  {func(dir string) error { return os.Symlink("/etc", dir+"/Alice") }, nil, errs.Conflict, "is a link"},
		"a link on the way": {func(dir string) error { return os.Symlink("/etc", dir+"/a") }, func(w *Want) {
			w.Template = parse(t, w.Template.root+"/{initial}/{name}")
		}, errs.Conflict, "is a link"},
		"a file":              {func(dir string) error { return os.WriteFile(dir+"/Alice", nil, 0o600) }, nil, errs.Conflict, "is no directory"},
		"another's":           {func(dir string) error { return mkdirOf(5555, dir+"/Alice") }, nil, errs.Conflict, "not a directory of user id 20001"},
		"root's, and in use":  {func(dir string) error { return os.MkdirAll(dir+"/Alice/x", 0o700) }, nil, errs.Conflict, "not a directory of user id 20001, but of 0"},
		"root's, of the site": {func(dir string) error { return os.Mkdir(dir+"/Alice", 0o755) }, nil, errs.Conflict, "not a directory of user id 20001, but of 0"},
		"root's, not to make": {func(dir string) error { return os.Mkdir(dir+"/Alice", 0o700) }, func(w *Want) { w.Create = false }, errs.Conflict, "but of 0"},
		"in another's":        {func(dir string) error { return os.Chown(dir, 5555, 100) }, nil, errs.Conflict, "is user id 5555's, who could exchange"},
		"in another's deeper": {func(dir string) error { return mkdirOf(5555, dir+"/a") }, func(w *Want) {
			w.Template = parse(t, w.Template.root+"/{initial}/{name}")
		}, errs.Conflict, "/a is user id 5555's"},
		"in nobody's, to make": {func(dir string) error { return os.Chown(dir, nobody, nobody) }, nil, errs.Conflict, "could exchange"},
		"among everybody's":    {func(dir string) error { return os.Chmod(dir, 0o1777|os.ModeSticky) }, nil, errs.Conflict, "chmod go-w"},
		"in what is her own":   {func(dir string) error { return os.Chown(dir, 20001, 100) }, nil, errs.Conflict, "could exchange"},
		"nothing mounted":      {nil, func(w *Want) { w.Mounted = true }, errs.Unavailable, "nothing is mounted"},
		"a name with a slash":  {nil, func(w *Want) { w.Who.Name = "../root" }, errs.Invalid, "no directory can be named"},
		"missing without root": {nil, func(w *Want) { w.Template, w.Create = parse(t, "/nowhere/{name}"), false }, errs.Missing, "there is no /nowhere"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name == "nothing mounted" && sameAsRoot(dir) == false {
				t.Skip("the directory of tests is a mount")
			}
			if test.prepare != nil {
				must(t, test.prepare(dir))
			}
			w := Want{Template: parse(t, dir+"/{name}"), Who: alice(), Checks: Checks{Create: true, Hers: true}}
			if test.change != nil {
				test.change(&w)
			}
			got, err := h.Find(t.Context(), w)
			if !errs.Is(err, test.kind) || !strings.Contains(fmt.Sprint(err), test.words) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// mkdirOf makes a directory that others cannot write to.
func mkdirOf(uid int, dir string) error {
	return errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, uid, 100))
}

// TestOfNobody: that is how NFS may show what is the server's root's; such a directory will do if nothing is to be made
// in it.
func TestOfNobody(t *testing.T) {
	h, dir := newHomes(t), t.TempDir()
	must(t, mkdirOf(20001, dir+"/Alice"), os.Chown(dir, nobody, nobody))
	if got, err := h.Find(t.Context(), Want{
		Template: parse(t, dir+"/{name}"), Who: alice(), Checks: Checks{Hers: true},
	}); err != nil || got.Path != dir+"/Alice" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestKilledWhileItMadeOne: what such a look leaves is given to the user by the next one.
func TestKilledWhileItMadeOne(t *testing.T) {
	h, dir := newHomes(t), t.TempDir()
	must(t, os.Mkdir(dir+"/Alice", ungiven))
	got, err := h.Find(t.Context(), Want{
		Template: parse(t, dir+"/{name}"), Who: alice(), Checks: Checks{Create: true, Hers: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(got.Path); err != nil || info.Sys().(*syscall.Stat_t).Uid != 20001 || info.Sys().(*syscall.Stat_t).Gid != 100 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestWhosePathsAreApart: by templates, among the users of one realm and of several.
func TestWhosePathsAreApart(t *testing.T) {
	for text, want := range map[string][2]bool{
		"/h/{uid}": {true, true}, "/h/{name}": {true, false}, "/h/x-{login}": {true, false}, "/h/{realm}/{name}": {true, true},
		"/h/{initial}": {false, false}, "/h/{realm}": {false, true}, "/h": {false, false},
	} {
		if p := parse(t, text); p.Personal() != want[0] || p.Apart() != want[1] {
			t.Errorf("%s: personal %t, apart %t", text, p.Personal(), p.Apart())
		}
	}
}

func sameAsRoot(dir string) bool {
	var a, b syscall.Stat_t
	return syscall.Stat(dir, &a) == nil && syscall.Stat("/", &b) == nil && a.Dev == b.Dev
}

// TestReadOnly: nothing can be made there, and what is there is said to be so.
func TestReadOnly(t *testing.T) {
	h, dir := newHomes(t), t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size=1m"); err != nil {
		t.Skip("mount:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	must(t, os.Mkdir(dir+"/Alice", 0o700), os.Chown(dir+"/Alice", 20001, 100))
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "mode=755,size=1m"))
	w := Want{Template: parse(t, dir+"/{name}"), Who: alice(), Checks: Checks{Create: true, Hers: true, Mounted: true}}
	if got, err := h.Find(t.Context(), w); err != nil || !got.ReadOnly {
		t.Errorf("%+v, %v", got, err)
	}
	w.Who.Name = "carol"
	if _, err := h.Find(t.Context(), w); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("made: %v", err)
	}
}

// TestSilentOnesHoldUpNobody: nor does the end of the service wait for them.
func TestSilentOnesHoldUpNobody(t *testing.T) {
	h := New(Config{Program: []string{"sh", "-c", "exec sleep 1000"}, Deadline: 50 * time.Millisecond})
	w := Want{Template: parse(t, "/nfs/{name}"), Who: alice()}
	if _, err := h.Find(t.Context(), w); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "/nfs/Alice does not answer") {
		t.Error(err)
	}
	h = New(Config{Program: []string{"sh", "-c", "exec sleep 1000"}, Deadline: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Find(ctx, w); err == nil {
		t.Error("it found something")
	}
}

// TestTheKernelsWordsAlone: what a child says is bounded and no user's.
func TestAnswerThatIsNone(t *testing.T) {
	for _, says := range []string{"true", "echo {}", "echo nonsense"} {
		h := New(Config{Program: []string{"sh", "-c", says}, Deadline: time.Minute})
		if got, err := h.Find(t.Context(), Want{Template: parse(t, "/h/{name}"), Who: alice()}); err == nil {
			t.Errorf("%s: %+v", says, got)
		}
	}
}

// TestManyMakeOne: starts of one user at once find one home.
func TestManyMakeOne(t *testing.T) {
	h, dir := newHomes(t), t.TempDir()
	ends := make(chan error, 4)
	for range 4 {
		go func() {
			_, err := h.Find(context.Background(), Want{
				Template: parse(t, dir+"/{name}"), Who: alice(), Checks: Checks{Create: true, Hers: true},
			})
			ends <- err
		}()
	}
	for range 4 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("there are %v", all)
	}
}

// TestQuotaOfTheKernel asks a real file system with quotas, where this kernel has them.
func TestQuotaOfTheKernel(t *testing.T) {
	h, dir := newHomes(t), t.TempDir()
	image := filepath.Join(t.TempDir(), "image")
	run := func(argv ...string) error {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, out)
		}
		return nil
	}
	must(t, os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20))
	if err := run("mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=usrquota:prjquota", image); err != nil {
		t.Skip("no ext4 with quotas can be made here: ", err)
	}
	if err := run("mount", "-o", "loop,usrquota", image, dir); err != nil {
		t.Skip("this kernel has no quotas (CONFIG_QFMT_V2): ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := run("setquota", "-u", "20001", "1024", "2048", "10", "20", dir); err != nil {
		t.Skip("quotas cannot be set: ", err)
	}
	got, err := h.Find(t.Context(), Want{
		Template: parse(t, dir+"/{name}"), Who: alice(), Checks: Checks{Create: true, Hers: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := Tightest(got.Limits); l.Kind != ByUser || l.Most != 1<<20 || l.MostFiles != 10 || l.Files != 1 {
		t.Errorf("limits %+v", got.Limits)
	}
}

// TestTheDirectoryOfTheHomes is made so that others pass through it under any umask, and refused where they can write
// to it.
func TestTheDirectoryOfTheHomes(t *testing.T) {
	h := newHomes(t)
	defer syscall.Umask(syscall.Umask(0o077))
	dir := filepath.Join(t.TempDir(), "deep", "homes")
	w := Want{Template: Below(dir), Checks: Checks{Create: true, Guarded: true}}
	if _, err := h.Find(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v: want mode 0711 under any umask", info, err)
	}
	must(t, os.Chmod(dir, 0o777))
	if _, err := h.Find(t.Context(), w); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "chmod go-w "+dir) {
		t.Errorf("writable for all: %v, want a refusal with the command", err)
	}
}
