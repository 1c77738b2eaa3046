package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
	"slipway/internal/xrd"
	"slipway/internal/xrd/xrdtest"
)

// shared runs a test once more where the root directory is shared, as on a host with systemd. It reports whether this
// is that run.
func shared(t *testing.T) bool {
	t.Helper()
	const mark = "SLIPWAY_TEST_SHARED_ROOT"
	if os.Getenv(mark) != "" {
		return true
	}
	t.Parallel()
	testenv.Need(t, testenv.Root, testenv.XRootDFS)
	const script = `mount --make-rshared / && exec "$0" -test.v -test.run="$1"`
	c := exec.Command("unshare", "--mount", "sh", "-c", script, os.Args[0], "^"+t.Name()+"$")
	c.Env = append(os.Environ(), mark+"=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return false
}

func TestServiceThatStartsAnewKeepsMountsUnderSharedRoot(t *testing.T) {
	if shared(t) {
		TestServiceThatStartsAnewKeepsMounts(t)
	}
}

func TestTokensAreRenewedUnderSharedRoot(t *testing.T) {
	if shared(t) {
		TestRenewalShowsNoEmptyDirectory(t)
	}
}

func TestDirectoryThatJoinedSharedRootIsHealed(t *testing.T) {
	if !shared(t) {
		return
	}
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	if err := leave(b.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(b.cfg.Dir, b.cfg.Dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if has, joined := sharing(b.cfg.Dir); !has || !joined {
		t.Fatalf("shared: %v, with the root's group: %v", has, joined)
	}
	b.open(t, "s-1", "alice", 2) // each twice
	b.Mounter = b.restart(t)
	if has, joined := sharing(b.cfg.Dir); !has || joined {
		t.Errorf("shared: %v, with the root's group: %v", has, joined)
	}
	dir := b.open(t, "s-1", "alice", 1)
	xrdtest.Eventually(t, "it is there", reads(filepath.Join(dir, "eos/a"), "content"))
	if n := strings.Count(mountsBelow(b.cfg.Dir), "\n"); n != 1 {
		t.Errorf("%d mounts", n)
	}
}

func mountsBelow(dir string) string {
	var out strings.Builder
	for one := range mountTable() {
		if strings.HasPrefix(one.Point, dir+"/") {
			fmt.Fprintln(&out, one.Point)
		}
	}
	return out.String()
}

func TestDataDirectoryMayBeLink(t *testing.T) {
	t.Parallel()
	origin := xrdtest.Origin(t)
	origin.Put("a", "content")
	b := newBench(t, "", xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Mount: true, Write: true})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(b.cfg.Dir), link); err != nil {
		t.Fatal(err)
	}
	through := b.cfg
	through.Dir, through.RunDir = filepath.Join(link, "storage"), filepath.Join(link, "run")
	m, err := New(through)
	if err != nil {
		t.Fatal(err)
	}
	b.Mounter = m
	b.open(t, "s-1", "alice", 1)
	b.keep(t, m, Session{"s-1", "alice"})
	before := b.processes(b.cfg.RunDir)
	b.rounds(t, 3)
	if after := b.processes(b.cfg.RunDir); len(before) != 1 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("processes before %v, after %v", before, after)
	}
}
