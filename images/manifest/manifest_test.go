package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// FuzzDecodeDocument: what is taken for a document is written again as it was, and its sizes can be added up.
func FuzzDecodeDocument(f *testing.F) {
	for _, base := range []*BasePart{nil, {Part: Part{Digest: blob.Digest([]byte("base")), Size: 9000}, Cut: 4000, Kept: blob.Digest([]byte("kept"))}} {
		d := Document{Base: base, Tail: Part{Digest: blob.Digest([]byte("tail")), Size: 4096 + SuperblockSize}, Manifest: Part{blob.Digest([]byte("{}")), 2}}
		d.Tail.Size += 4096 - d.PartitionSize()%4096
		data, _, err := d.Encode()
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
		again, name, err := d.Encode()
		if err != nil || !bytes.Equal(again, data) || name != blob.Digest(data) {
			t.Errorf("written again it is %q, %v", again, err)
		}
		need := d.PartitionSize() + d.Manifest.Size
		if d.Base != nil {
			need += d.Base.Size
		}
		if d.PartitionSize() <= 0 || need <= 0 {
			t.Errorf("%d bytes of which %d are an image's", need, d.PartitionSize())
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"base":{"reference":"a","digest":"b"},"env":["A=b"],"losses":{"acls":1}}`))
	f.Add([]byte(`{"format":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := Decode(data); err == nil && (m.Format < oldestFormat || m.Format > Format) {
			t.Errorf("taken for one: %+v", m)
		}
	})
}

// TestSizesThatCannotBeAddedUp: the room that an environment needs must not be wrapped around to little.
func TestSizesThatCannotBeAddedUp(t *testing.T) {
	named := blob.Digest(nil)
	d := Document{
		Base: &BasePart{Part: Part{Digest: named, Size: 1<<63 - 1}, Cut: 1 << 62, Kept: named}, Tail: Part{Digest: named, Size: 1<<62 - 4000}, Manifest: Part{Digest: named, Size: 5000},
	}
	data, _, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if d, err := DecodeDocument(data); err == nil {
		t.Errorf("taken for a document: %+v", d)
	}
}

// TestManifestsAreBounded: they lie in records, which everybody reads who lists what is shared with her.
func TestManifestsAreBounded(t *testing.T) {
	if _, err := Encode(Manifest{Mounts: []string{strings.Repeat("m", MaxSize)}}); !errs.Is(err, errs.Invalid) {
		t.Errorf("%v", err)
	}
	if d := (Document{Manifest: Part{Digest: blob.Digest(nil), Size: MaxSize + 1}, Tail: Part{Digest: blob.Digest(nil), Size: 8192}}); d.check() == nil {
		t.Error("a stranger's is not bounded")
	}
}
