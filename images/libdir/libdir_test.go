package libdir

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `22 28 0:21 / /proc rw shared:7 - proc proc rw
90 28 0:50 / /lib/a\040library/work/freeze-1/mount ro - overlay slipway ro
91 28 0:51 / /lib/a\040library/work/freeze-1/mount/in\134ner ro - tmpfs x rw
92 28 0:52 / /lib/a\040library/workshop rw - tmpfs x rw
short line
`

func TestMountsBelow(t *testing.T) {
	got := mountsBelow(mountinfo, "/lib/a library/work")
	want := []string{`/lib/a library/work/freeze-1/mount/in\ner`, "/lib/a library/work/freeze-1/mount"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzMountsBelow(f *testing.F) {
	f.Add(mountinfo)
	f.Fuzz(func(t *testing.T, in string) {
		points := mountsBelow(in, "/lib/work")
		for _, p := range points {
			if !strings.HasPrefix(p, "/lib/work/") {
				t.Errorf("%q lies elsewhere", p)
			}
		}
	})
}

func FuzzEscape(f *testing.F) {
	f.Add("alice", "Alice")
	f.Add("~", strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Escape(a), Escape(b)
		if strings.EqualFold(x, y) && a != b {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		if len(x) > 255 || strings.ContainsAny(x, "/.\x00") {
			t.Errorf("Escape(%q) = %q", a, x)
		}
	})
}

func TestEscapeIsInjectiveAlsoWithoutCase(t *testing.T) {
	long := strings.Repeat("é", 200)
	owners := []string{"alice", "Alice", "ALICE", "a=6cice", "..", ".", "../alice", "a/b", "a=2fb", "é", "e\u0301", long, long + "x", strings.Repeat("a", 200), strings.Repeat("a", 201), "~" + Escape(long)[1:], "\x00", " "}
	seen := map[string]string{}
	for _, owner := range owners {
		file := strings.ToLower(Escape(owner))
		if old, taken := seen[file]; taken {
			t.Errorf("%q and %q share the file name %q", old, owner, file)
		}
		seen[file] = owner
		if len(file) > 250 || strings.ContainsAny(file, "/.\x00") {
			t.Errorf("%q has the file name %q", owner, file)
		}
	}
}
