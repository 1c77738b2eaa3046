package wire

import (
	"bufio"
	"bytes"
	"reflect"
	"testing"
)

func FuzzV1(f *testing.F) {
	for _, g := range golden(f).Messages {
		f.Add(g.V1)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeV1(b)
		if err != nil {
			return
		}
		if back, err := DecodeV1(EncodeV1(m)); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%+v is read as %+v, %v", m, back, err)
		}
		_ = m.Type() + m.ParentID()
		if m.Check() == nil {
			legacy(t, m)
		}
	})
}

// legacy sends a message in the other framing and back.
func legacy(t *testing.T, m Message) {
	binary, data, err := Legacy{}.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Legacy{}.Decode(binary, data)
	if err != nil || !alike(back, m) {
		t.Errorf("%+v is read as %+v, %v", m, back, err)
	}
}

func FuzzLegacy(f *testing.F) {
	for _, g := range golden(f).Messages {
		f.Add(g.LegacyBinary, g.Legacy)
	}
	f.Fuzz(func(t *testing.T, binary bool, b []byte) {
		if m, err := (Legacy{}).Decode(binary, b); err == nil {
			legacy(t, m)
			for range Split(m, 700) {
			}
		}
	})
}

func FuzzFrames(f *testing.F) {
	for _, g := range golden(f).Messages {
		f.Add(bytes.Join(g.Frames, []byte("|")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k := NewKey([]byte("k"))
		if m, err := k.Parse(Shell, bytes.Split(b, []byte("|"))); err == nil {
			t.Errorf("%+v is signed", m)
		}
		m := Message{Channel: Shell, Header: []byte("{}"), Parent: []byte("{}"), Metadata: []byte("{}"), Content: append([]byte("{"), b...)}
		if back, err := k.Parse(Shell, k.Frames(m)); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%+v is read as %+v, %v", m, back, err)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"client\":\"a\"}\n\x00\x00\x00\x09a\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("{\"state\":\"idle\"}\n\x00\x00\x00\x02mx"))
	f.Add([]byte("{\"takes\":true}\n\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x02"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		if _, err := ReadHello(r); err == nil {
			for err == nil {
				_, err = ReadUp(r)
			}
		}
		r = bufio.NewReader(bytes.NewReader(b))
		if _, err := ReadWelcome(r); err == nil {
			for err == nil {
				_, err = ReadDown(r)
			}
		}
	})
}
