package export

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slipway/images/squashfs"
	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

const hexDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestDirectoryIsTheEnvironment(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, _, want := f.env(nastyChanges)
	root := t.TempDir()
	cfg := DirectoryConfig{Env: env, Root: root, Digest: hexDigest, Name: "hub.example.org/alice/ana:v1"}
	out, err := Directory(t.Context(), cfg)
	must(t, err)
	if out.Path != ".flat/01/"+hexDigest || out.Link != cfg.Name || out.Old || !out.Owners {
		t.Errorf("%+v", out)
	}
	if !slices.Equal(out.Skipped.Paths, []string{"/usr/blk"}) || !slices.Equal(out.Tamed.Paths, []string{"/opt/cap", "/opt/suid"}) {
		t.Errorf("skipped %+v, tamed %+v", out.Skipped, out.Tamed)
	}
	want = tamed(want)
	if !slices.Equal(out.Opened.Paths, []string{"/opt/closed", "/opt/locked"}) || out.Opened.Count != 2 {
		t.Errorf("opened %+v", out.Opened)
	}
	for i, line := range want {
		line = strings.Replace(line, `"/opt/closed" mode 040000`, `"/opt/closed" mode 040500`, 1)
		want[i] = strings.Replace(line, `"/opt/locked" mode 100000`, `"/opt/locked" mode 100400`, 1)
	}
	same(t, want, treetest.List(t, filepath.Join(root, ".flat/01", hexDigest)))
	same(t, want, treetest.List(t, filepath.Join(root, cfg.Name)+"/."))
	if to, err := os.Readlink(filepath.Join(root, cfg.Name)); to != "../../.flat/01/"+hexDigest {
		t.Errorf("link to %q, %v", to, err)
	}
	checkAgain(t, cfg)
}

// tamed returns a list of a tree's entries as they are where nothing gives rights.
func tamed(list []string) (out []string) {
	capability := regexp.MustCompile(` "security\.[^"]*"=[0-9a-f]*`)
	for _, line := range list {
		var mode uint32
		before, after, found := strings.Cut(line, " mode ")
		if _, err := fmt.Sscanf(after, "%o", &mode); err != nil || !found {
			panic(line)
		}
		switch mode & syscall.S_IFMT {
		case syscall.S_IFCHR, syscall.S_IFBLK:
			continue
		case syscall.S_IFDIR:
		default:
			mode &^= 0o6000
		}
		out = append(out, fmt.Sprintf("%s mode %06o%s", before, mode, capability.ReplaceAllString(after[6:], "")))
	}
	return out
}

// TestADirectoryGivesNobodyRights: the set-id program of a stranger's environment would make him root on whatever host
// publishes it.
func TestADirectoryGivesNobodyRights(t *testing.T) {
	u := Unpacked{Owners: true}
	program := &squashfs.Node{Kind: squashfs.File, Mode: 0o6755, Xattrs: &squashfs.Xattrs{List: []squashfs.Xattr{
		{Name: "security.capability"}, {Name: "security.ima"}, {Name: "trusted.overlay.redirect"}, {Name: "user.a"},
	}}}
	got := u.makeable("/bin/sh", program)
	if got.Mode != 0o755 || len(got.Xattrs.List) != 1 || got.Xattrs.List[0].Name != "user.a" || u.Tamed.Count != 1 || u.Opened.Count != 0 {
		t.Errorf("%+v, %+v", got, u)
	}
	if program.Mode != 0o6755 || len(program.Xattrs.List) != 4 {
		t.Errorf("the environment's own node is changed: %+v", program)
	}
	if d := u.makeable("/srv", directory(0o2775)); d.Mode != 0o2775 {
		t.Errorf("directory of mode %o", d.Mode)
	}
	if plain := u.makeable("/f", &squashfs.Node{Kind: squashfs.File, Mode: 0o644}); plain.Mode != 0o644 || u.Tamed.Count != 1 {
		t.Errorf("%+v, %+v", plain, u)
	}
}

// checkAgain moves the name to another environment, and back without unpacking.
func checkAgain(t *testing.T, cfg DirectoryConfig) {
	t.Helper()
	other := cfg
	other.Digest = strings.Repeat("f", 64)
	left := filepath.Join(cfg.Root, ".flat/ff/.new-"+other.Digest)
	must(t, write(filepath.Join(left, "of/a/killed/service"), "x"))
	if out, err := Directory(t.Context(), other); err != nil || out.Old {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := Directory(t.Context(), cfg); err != nil || !out.Old {
		t.Errorf("%+v, %v", out, err)
	}
	if to, err := os.Readlink(filepath.Join(cfg.Root, cfg.Name)); !strings.HasSuffix(to, hexDigest) {
		t.Errorf("link to %q, %v", to, err)
	}
	if found, _ := filepath.Glob(filepath.Join(cfg.Root, ".flat/*/.new-*")); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
	if _, err := os.Stat(filepath.Join(cfg.Root, ".flat/ff", other.Digest, "of")); err == nil {
		t.Error("what a killed service left is in the tree")
	}
}

func TestFailedDirectoryLeavesNothing(t *testing.T) {
	// A file whose content cannot be read, behind others that can be written.
	broken := stored(1<<40, 0o644)
	image := randomImage(t)
	damaged := &squashfs.Image{Super: image.Super, Root: plan{"/a/b": directory(0o755), "/z": broken}.tree()}
	root := t.TempDir()
	if _, err := Directory(t.Context(), DirectoryConfig{Env: damaged, Root: root, Digest: hexDigest, Name: "a/b:c"}); err == nil || !strings.Contains(err.Error(), "/z") {
		t.Errorf("err = %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, ".flat/01")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Lstat(filepath.Join(root, "a")); err == nil {
		t.Error("the name is there")
	}
}

func TestNamesStayBelowTheRoot(t *testing.T) {
	image := &squashfs.Image{Root: plan{}.tree()}
	for _, name := range []string{"/etc/x:1", "../x:1", "a/../../x:1", "a//b:1", ".flat/x:1", "a/.hidden:1", "a/b:1/"} {
		if _, err := Directory(t.Context(), DirectoryConfig{Env: image, Root: t.TempDir(), Digest: hexDigest, Name: name}); !errs.Is(err, errs.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, d := range []string{"", "..", hexDigest[1:], "../" + hexDigest[3:]} {
		if _, err := Directory(t.Context(), DirectoryConfig{Env: image, Root: t.TempDir(), Digest: d}); !errs.Is(err, errs.Invalid) {
			t.Errorf("digest %q: %v", d, err)
		}
	}
}

func TestWithoutRootNodesBecomeOnesOwn(t *testing.T) {
	n := &squashfs.Node{Kind: squashfs.File, Mode: 0o200, UID: 7, GID: 8, Xattrs: &squashfs.Xattrs{List: []squashfs.Xattr{
		{Name: "security.capability"}, {Name: "user.a"}, {Name: "trusted.b"},
	}}}
	var u Unpacked
	got := u.makeable("/f", n)
	if got.Mode != 0o600 || int(got.UID) != os.Geteuid() || len(got.Xattrs.List) != 1 || got.Xattrs.List[0].Name != "user.a" || u.Opened.Count != 1 {
		t.Errorf("%+v, %+v", got, u)
	}
	if d := u.makeable("/d", directory(0o555)); d.Mode != 0o755 {
		t.Errorf("directory of mode %o", d.Mode)
	}
	for i := range 2 * most {
		u.Opened.add(fmt.Sprint(i))
	}
	if len(u.Opened.Paths) != most || u.Opened.Count != 2*most+2 {
		t.Errorf("%d paths of %d", len(u.Opened.Paths), u.Opened.Count)
	}
}

// TestAnyoneCanUnpack runs this program again as somebody who is not root.
func TestAnyoneCanUnpack(t *testing.T) {
	if dir := os.Getenv("RENDER_TEST_UNPACK"); dir != "" {
		out, err := Directory(t.Context(), DirectoryConfig{Env: parse(t, filepath.Join(dir, "env")), Root: filepath.Join(dir, "root"), Digest: hexDigest})
		must(t, err)
		if out.Owners || !slices.Equal(out.Skipped.Paths, []string{"/usr/blk"}) || !slices.Contains(out.Opened.Paths, "/opt/locked") {
			t.Errorf("%+v", out)
		}
		return
	}
	f := newFixture(t, nastyBase)
	f.env(nastyChanges)
	program := f.at("program")
	must(t, copyFile(program, os.Args[0]), os.Chmod(program, 0o755), os.Chmod(f.dir, 0o755), os.Chmod(filepath.Dir(f.dir), 0o755))
	must(t, os.Mkdir(f.at("root"), 0o755), os.Chown(f.at("root"), 65534, 65534))
	cmd := exec.Command(program, "-test.run=^TestAnyoneCanUnpack$")
	cmd.Env = append(os.Environ(), "RENDER_TEST_UNPACK="+f.dir, "TMPDIR="+f.at("root"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as nobody: %v: %s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(f.at("root"), ".flat/01", hexDigest, "opt/y/hard2")); string(data) != "hard" {
		t.Errorf("it holds %q, %v", data, err)
	}
}

func TestApptainerRunsTheDirectory(t *testing.T) {
	testenv.Need(t, testenv.Apptainer, testenv.Busybox)
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	content, err := os.ReadFile(busybox)
	must(t, err)
	f := newFixture(t, func(root string) error {
		return write(filepath.Join(root, "bin/busybox"), string(content))
	})
	env, _, _ := f.env(func(root string) error {
		if err := os.Chmod(filepath.Join(root, "bin/busybox"), 0o755); err != nil {
			return err
		}
		return write(filepath.Join(root, "opt/said"), "from the environment")
	})
	root := t.TempDir()
	_, err = Directory(t.Context(), DirectoryConfig{Env: env, Root: root, Digest: hexDigest, Name: "hub/ana:v1"})
	must(t, err)
	out := run(t, testenv.ApptainerPath(), "exec", "--drop-caps", "CAP_SYS_RESOURCE", filepath.Join(root, "hub/ana:v1"), "/bin/busybox", "cat", "/opt/said")
	if !strings.Contains(out, "from the environment") {
		t.Errorf("it said %q", out)
	}
}
