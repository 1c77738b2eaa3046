package mounts

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMounts(t *testing.T) {
	const text = `36 35 98:0 /root /a\040b\043c\134d rw,noatime shared:2 master:1 propagate_from:7 new - overlay a\011b rw,lowerdir=/l\0541:/l2
40 36 0:41 - /- rw - tmpfs  rw,size=1m
short line
41 36 0:42 / /cut rw - tmpfs
42 36 0:43 / /no/dash rw shared:1 tmpfs tmpfs rw

43 36 0:44 / /last ro - autofs systemd-1 rw,fd=5`
	want := []Mount{
		{
			ID: "36", Parent: "35", Device: "98:0", Point: `/a b#c\d`, Group: "2", Master: "1", Type: "overlay", Source: "a\tb",
			Options: []string{"rw", "lowerdir=/l,1:/l2"},
		},
		{ID: "40", Parent: "36", Device: "0:41", Point: "/-", Type: "tmpfs", Options: []string{"rw", "size=1m"}}, // no source
		{
			ID: "43", Parent: "36", Device: "0:44", Point: "/last", Type: "autofs", Source: "systemd-1",
			Options: []string{"rw", "fd=5"},
		},
	}
	if diff := cmp.Diff(want, slices.Collect(Mounts(text))); diff != "" {
		t.Error(diff)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/a": "/a", `/a\040b`: "/a b",
		`\011\012\043\134`: "\t\n#\\", `\777`: `\777`, `\04`: `\04`, `\`: `\`,
		`\08x`: `\08x`, `\134040`: `\040`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestALongLineIsRead: an overlay of many layers has a line of more than the 64 KiB that a bufio.Scanner takes.
func TestALongLineIsRead(t *testing.T) {
	long := strings.Repeat("/layer:", 20000)
	for m := range Mounts("1 2 0:3 / /a rw - overlay none rw,lowerdir=" + long + "\n") {
		if m.Options[1] != "lowerdir="+long {
			t.Errorf("%d bytes of %d", len(m.Options[1]), len(long))
		}
		return
	}
	t.Error("it is not read")
}
