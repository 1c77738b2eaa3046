package images

import (
	"bytes"
	"fmt"
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

// FuzzDecodeDocument: what is taken for a document is written again as it was, and its sizes can be added up.
func FuzzDecodeDocument(f *testing.F) {
	for _, base := range []*BasePart{nil, {Part: Part{digestOf([]byte("base")), 9000}, Cut: 4000, Kept: digestOf([]byte("kept"))}} {
		d := Document{Base: base, Tail: Part{digestOf([]byte("tail")), 4096 + superblockSize}, Manifest: Part{digestOf([]byte("{}")), 2}}
		d.Tail.Size += 4096 - d.partition()%4096
		data, _, err := d.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(bytes.Replace(data, []byte(fmt.Sprint(d.Tail.Size)), []byte("9223372036854775807"), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := DecodeDocument(data)
		if err != nil {
			return
		}
		again, name, err := d.encode()
		if err != nil || !bytes.Equal(again, data) || name != digestOf(data) {
			t.Errorf("written again it is %q, %v", again, err)
		}
		need := d.partition() + d.Manifest.Size
		if d.Base != nil {
			need += d.Base.Size
		}
		if d.partition() <= 0 || need <= 0 {
			t.Errorf("%d bytes of which %d are an image's", need, d.partition())
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"base":{"reference":"a","digest":"b"},"env":["A=b"],"losses":{"acls":1}}`))
	f.Add([]byte(`{"format":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := decodeManifest(data); err == nil && (m.Format < oldestFormat || m.Format > manifestFormat) {
			t.Errorf("taken for one: %+v", m)
		}
	})
}

// TestSizesThatCannotBeAddedUp: the room that an environment needs must not be wrapped around to little.
func TestSizesThatCannotBeAddedUp(t *testing.T) {
	named := digestOf(nil)
	d := Document{
		Base: &BasePart{Part: Part{named, 1<<63 - 1}, Cut: 1 << 62, Kept: named}, Tail: Part{named, 1<<62 - 4000}, Manifest: Part{named, 5000},
	}
	data, _, err := d.encode()
	must(t, err)
	if d, err := DecodeDocument(data); err == nil {
		t.Errorf("taken for a document: %+v", d)
	}
}
