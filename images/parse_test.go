package images

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"slipway/images/blob"
)

func FuzzDecodeRecord(f *testing.F) {
	hexPart := strings.Repeat("a", 64)
	f.Add(`{"owner":"alice","digest":"sha256:` + hexPart + `","labels":[{"key":"s1"}]}`)
	f.Add(`{"owner":"bob"}`)
	f.Fuzz(func(t *testing.T, in string) {
		if r, err := decodeRecord([]byte(in), "alice", hexPart); err == nil && (r.Owner != "alice" || r.Digest != blob.Prefix+hexPart || len(r.Labels) == 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}

// FuzzDecodeDocument: what is taken for a document is written again as it was, and its sizes can be added up.
func FuzzDecodeDocument(f *testing.F) {
	for _, base := range []*BasePart{nil, {Part: Part{blob.Digest([]byte("base")), 9000}, Cut: 4000, Kept: blob.Digest([]byte("kept"))}} {
		d := Document{Base: base, Tail: Part{blob.Digest([]byte("tail")), 4096 + superblockSize}, Manifest: Part{blob.Digest([]byte("{}")), 2}}
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
		if err != nil || !bytes.Equal(again, data) || name != blob.Digest(data) {
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
	named := blob.Digest(nil)
	d := Document{
		Base: &BasePart{Part: Part{named, 1<<63 - 1}, Cut: 1 << 62, Kept: named}, Tail: Part{named, 1<<62 - 4000}, Manifest: Part{named, 5000},
	}
	data, _, err := d.encode()
	must(t, err)
	if d, err := DecodeDocument(data); err == nil {
		t.Errorf("taken for a document: %+v", d)
	}
}
