package mounts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/errs"
)

// mountinfo is of the kernel's form; the tags stand between the sixth field and the dash.
const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /sys rw,nosuid shared:7 - sysfs sysfs rw
41 22 254:0 /srv/a\040b /srv/a\040b rw shared:12 - ext4 /dev/vda rw
42 22 254:0 /srv/c /srv/c rw master:3 - ext4 /dev/vda rw
43 22 0:40 / /srv/d rw shared:9 - tmpfs tmpfs rw
44 43 0:41 / /srv/d rw - tmpfs tmpfs rw
45 22 0:42 / /srv/e rw unbindable - tmpfs shared:1 rw
short line
`

func TestPropagates(t *testing.T) {
	tests := []struct {
		dir    string
		shared bool
		point  string
	}{
		{"/", false, "/"},
		{"/srv", false, "/"},
		{"/sys/fs", true, "/sys"},
		{"/system", false, "/"},
		{"/srv/a b/deep", true, "/srv/a b"},
		{"/srv/c", true, "/srv/c"},
		{"/srv/d/x", false, "/srv/d"}, // the mount on top counts
		{"/srv/e", false, "/srv/e"},
	}
	for _, test := range tests {
		shared, point := propagates(mountinfo, test.dir)
		if shared != test.shared || point != test.point {
			t.Errorf("propagates(%q) = %v, %q, want %v, %q", test.dir, shared, point, test.shared, test.point)
		}
	}
}

func TestUnsharedIsTold(t *testing.T) {
	if err := CheckShared("/proc/self"); err != nil && !errs.Is(err, errs.Missing) {
		t.Errorf("CheckShared = %v, want nil or missing", err)
	}
	if err := CheckShared(t.TempDir() + "/gone"); !errs.Is(err, errs.Missing) {
		t.Errorf("CheckShared of what is not there = %v", err)
	}
	if got := remedy("/cvmfs", "/cvmfs"); got != "`mount --make-rshared /cvmfs`" {
		t.Error(got)
	}
}

func FuzzPropagates(f *testing.F) {
	f.Add(mountinfo, "/srv/a b/deep")
	f.Add(`1 1 1 1 \04 \ - \777`, "/")
	f.Fuzz(func(t *testing.T, text, dir string) {
		if shared, point := propagates(text, dir); shared && point == "" {
			t.Error("shared, but no mount holds it")
		}
	})
}

// TestAMountIsNotTouched: what is mounted is taken from the kernel's list; its file system may never answer. Here it is
// not even there.
func TestAMountIsNotTouched(t *testing.T) {
	real := t.TempDir()
	if err := os.Symlink("silent", filepath.Join(real, "link")); err != nil {
		t.Fatal(err)
	}
	silent := filepath.Join(real, "silent")
	for _, dir := range []string{silent, silent + "/", filepath.Join(real, "link")} {
		if got, err := locate("36 35 0:52 / "+silent+" rw shared:1 - fuse x rw\n", dir); got != silent || err != nil {
			t.Errorf("locate(%s) = %q, %v", dir, got, err)
		}
	}
	if _, err := locate("", silent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where nothing is mounted: %v", err)
	}
	if err := os.Symlink("round", filepath.Join(real, "round")); err != nil {
		t.Fatal(err)
	}
	if _, err := locate("", filepath.Join(real, "round")); err == nil {
		t.Error("a link to itself leads somewhere")
	}
}
