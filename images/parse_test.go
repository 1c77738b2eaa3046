package images

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
	got, err := mountsBelow(strings.NewReader(mountinfo), "/lib/a library/work")
	must(t, err)
	want := []string{`/lib/a library/work/freeze-1/mount/in\ner`, "/lib/a library/work/freeze-1/mount"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzMountsBelow(f *testing.F) {
	f.Add(mountinfo)
	f.Fuzz(func(t *testing.T, in string) {
		points, _ := mountsBelow(strings.NewReader(in), "/lib/work")
		for _, p := range points {
			if !strings.HasPrefix(p, "/lib/work/") {
				t.Errorf("%q lies elsewhere", p)
			}
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	hexPart := strings.Repeat("a", 64)
	f.Add(`{"owner":"alice","digest":"sha256:` + hexPart + `","labels":[{"key":"s1"}]}`)
	f.Add(`{"owner":"bob"}`)
	f.Fuzz(func(t *testing.T, in string) {
		if r, err := decodeRecord([]byte(in), "alice", hexPart); err == nil && (r.Owner != "alice" || r.Digest != digestPrefix+hexPart || len(r.Labels) == 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}

func FuzzEscape(f *testing.F) {
	f.Add("alice", "Alice")
	f.Add("~", strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := escape(a), escape(b)
		if strings.EqualFold(x, y) && a != b {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		if len(x) > 255 || strings.ContainsAny(x, "/.\x00") {
			t.Errorf("escape(%q) = %q", a, x)
		}
	})
}
