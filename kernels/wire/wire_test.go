package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded is what jupyter_client and jupyter_server made of some messages; the file says which versions.
type recorded struct {
	Key      string
	Messages []struct {
		Channel      Channel
		Type, ID     string
		Buffers      int
		Parts        [][]byte
		Frames       [][]byte
		Legacy       []byte
		LegacyBinary bool `json:"legacy_binary"`
		V1           []byte
	}
}

func golden(t testing.TB) recorded {
	b, err := os.ReadFile("testdata/jupyter.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAsJupyterHasIt(t *testing.T) {
	r := golden(t)
	key := NewKey([]byte(r.Key))
	for _, g := range r.Messages {
		m, err := key.Parse(g.Channel, g.Frames)
		if err != nil || m.Type() != g.Type || m.ID() != g.ID || len(m.Buffers) != g.Buffers || m.Check() != nil {
			t.Fatalf("%s: %+v, %v", g.Type, m, err)
		}
		if diff := cmp.Diff(g.Frames[len(g.Frames)-len(g.Parts)-2:], key.Frames(m)); diff != "" {
			t.Errorf("%s: frames:\n%s", g.Type, diff)
		}
		if !bytes.Equal(EncodeV1(m), g.V1) {
			t.Errorf("%s: v1: %q\nis to be %q", g.Type, EncodeV1(m), g.V1)
		}
		if back, err := DecodeV1(g.V1); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%s: v1 is read as %+v, %v", g.Type, back, err)
		}
		back, err := Legacy{}.Decode(g.LegacyBinary, g.Legacy)
		if err != nil || !alike(back, m) {
			t.Errorf("%s: legacy is read as %+v, %v", g.Type, back, err)
		}
		binary, data, err := Legacy{}.Encode(m)
		if err != nil || binary != g.LegacyBinary || !binary && bytes.Contains(data, []byte("</")) {
			t.Errorf("%s: legacy: %v, %v, %q", g.Type, binary, err, data)
		}
		if diff := cmp.Diff(fields(t, g.LegacyBinary, g.Legacy), fields(t, binary, data)); diff != "" {
			t.Errorf("%s: legacy:\n%s", g.Type, diff)
		}
	}
	if _, err := key.Parse(Shell, r.Messages[0].Frames); !errors.Is(err, ErrReplayed) {
		t.Errorf("again: %v", err)
	}
}

// fields are those that the JSON of a message has, whose dates are not spelt the same everywhere.
func fields(t *testing.T, binary bool, data []byte) map[string]any {
	if binary {
		pieces, err := cut(data)
		if err != nil {
			t.Fatal(err)
		}
		data = pieces[0]
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %q", err, data)
	}
	for _, h := range []string{"header", "parent_header"} {
		delete(v[h].(map[string]any), "date")
	}
	return v
}

func alike(a, b Message) bool {
	same := a.Channel == b.Channel && a.ID() == b.ID() && a.ParentID() == b.ParentID() && len(a.Buffers) == len(b.Buffers)
	for i := range min(len(a.Buffers), len(b.Buffers)) {
		same = same && bytes.Equal(a.Buffers[i], b.Buffers[i])
	}
	var x, y any
	return same && json.Unmarshal(a.Content, &x) == nil && json.Unmarshal(b.Content, &y) == nil && reflect.DeepEqual(x, y)
}

func TestForgedIsRefused(t *testing.T) {
	r := golden(t)
	for name, forge := range map[string]func([][]byte) [][]byte{
		"content":      func(f [][]byte) [][]byte { f[5] = []byte(`{"code":"evil"}`); return f },
		"signature":    func(f [][]byte) [][]byte { f[1] = bytes.Repeat([]byte("0"), 64); return f },
		"none":         func(f [][]byte) [][]byte { f[1] = nil; return f },
		"no hex":       func(f [][]byte) [][]byte { f[1] = bytes.Repeat([]byte("z"), 64); return f },
		"cut":          func(f [][]byte) [][]byte { return f[:4] },
		"no delimiter": func(f [][]byte) [][]byte { return f[1:] },
		"nothing":      func([][]byte) [][]byte { return nil },
	} {
		frames := forge(bytesOf(r.Messages[0].Frames))
		if m, err := NewKey([]byte(r.Key)).Parse(Shell, frames); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if _, err := NewKey([]byte("another")).Parse(Shell, r.Messages[0].Frames); !errors.Is(err, ErrSignature) {
		t.Errorf("another key: %v", err)
	}
}

func bytesOf(f [][]byte) [][]byte { return append([][]byte(nil), f...) }

func TestSignaturesAreForgotten(t *testing.T) {
	k := NewKey([]byte("k"))
	for i := range remember + 10 {
		if _, err := k.Parse(IOPub, k.Frames(Message{Header: fmt.Appendf(nil, `{"msg_id":"%d"}`, i), Parent: []byte("{}"), Metadata: []byte("{}"), Content: []byte("{}")})); err != nil {
			t.Fatal(err)
		}
	}
	if len(k.seen.has) != remember || len(k.seen.ring) != remember {
		t.Errorf("%d signatures are kept", len(k.seen.has))
	}
}

func TestLegacyOfClients(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		channel Channel
		header  string
	}{
		"no channel":    {`{"header":{"msg_id":"1","msg_type":"a"},"content":{}}`, Shell, `{"msg_id":"1","msg_type":"a"}`},
		"null channel":  {`{"channel":null,"header":{"msg_id":"1"},"parent_header":null}`, Shell, `{"msg_id":"1"}`},
		"numeric date":  {`{"channel":"control","header":{"date":1700000000.25,"msg_id":"1"}}`, Control, `{"date":"2023-11-14T22:13:20.250000Z","msg_id":"1"}`},
		"date as text":  {`{"channel":"stdin","header":{"msg_id":"1","date":"2023-11-14"}}`, Stdin, `{"msg_id":"1","date":"2023-11-14"}`},
		"no date, null": {`{"channel":"shell","header":{"msg_id":"1","date":null}}`, Shell, `{"msg_id":"1","date":null}`},
	} {
		m, err := Legacy{}.Decode(false, []byte(test.text))
		if err != nil || m.Channel != test.channel || string(m.Header) != test.header || string(m.Parent) != "{}" || string(m.Content) != "{}" {
			t.Errorf("%s: %s %s, %v", name, m.Channel, m.Header, err)
		}
	}
	if _, err := (Legacy{}).Decode(false, []byte(`{"channel":"hb","header":{}}`)); !errors.Is(err, ErrChannel) {
		t.Errorf("unknown channel: %v", err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"header":[]}`, `{"header":{},"content":[]}`, `{"header":{},"channel":7}`, `{"header":{}`} {
		if m, err := (Legacy{}).Decode(false, []byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, m)
		}
	}
	if _, _, err := (Legacy{}).Encode(Message{Header: []byte(`{}`), Parent: []byte(`{}`), Metadata: []byte(`{}`), Content: []byte(`{"a":NaN}`)}); err == nil {
		t.Error("what is no JSON is sent as text")
	}
}

func TestSplitText(t *testing.T) {
	text := strings.Repeat("\"é</script>\x00\u2028\U0001F600\n", 4000)
	m, err := New(IOPub, "stream", nil, map[string]string{"name": "stderr", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	ids := map[string]bool{}
	for piece := range Split(m, 10_000) {
		_, data, err := Legacy{}.Encode(piece)
		if err != nil || len(data) > 10_000 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		var c struct{ Name, Text string }
		if err := json.Unmarshal(piece.Content, &c); err != nil || c.Name != "stderr" {
			t.Fatalf("%+v, %v", c, err)
		}
		got.WriteString(c.Text)
		ids[piece.ID()] = true
	}
	if got.String() != text || len(ids) < 10 {
		t.Errorf("%d bytes of %d in %d messages", got.Len(), len(text), len(ids))
	}
	other, err := New(IOPub, "display_data", nil, map[string]string{"name": "stderr", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(Split(other, 1000)); len(got) != 1 || !reflect.DeepEqual(got[0], other) {
		t.Errorf("what is no text became %d messages", len(got))
	}
}

func TestStreamCarries(t *testing.T) {
	var b bytes.Buffer
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	for _, err := range []error{
		WriteHello(&b, Hello{Client: "tab 1"}), WriteWelcome(&b, Welcome{State: "idle", Acked: 7, Cell: json.RawMessage(`{"msg_id":"1"}`)}),
		WriteMessage(&b, []byte("up")), WriteAck(&b, 1<<40), WriteDown(&b, 1<<41, large), WriteTaken(&b, 1<<42),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(&b)
	if h, err := ReadHello(r); h.Client != "tab 1" || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if w, err := ReadWelcome(r); w.State != "idle" || w.Acked != 7 || string(w.Cell) != `{"msg_id":"1"}` || err != nil {
		t.Errorf("%+v, %v", w, err)
	}
	if u, err := ReadUp(r); string(u.Message) != "up" || err != nil {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := ReadUp(r); u.Message != nil || u.Ack != 1<<40 || err != nil {
		t.Errorf("%+v, %v", u, err)
	}
	if d, err := ReadDown(r); d.Seq != 1<<41 || !bytes.Equal(d.Message, large) || err != nil {
		t.Errorf("%d, %d bytes, %v", d.Seq, len(d.Message), err)
	}
	if d, err := ReadDown(r); d.Message != nil || d.Taken != 1<<42 || err != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := ReadDown(r); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

func TestStreamIsBounded(t *testing.T) {
	read := func(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }
	if _, err := ReadHello(read(strings.Repeat(" ", lineLimit+1))); err == nil {
		t.Error("a line without end")
	}
	if _, err := ReadDown(read("\xff\xff\xff\xff")); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a giant: %v", err)
	}
	if _, err := ReadDown(read("\x07\x00\x00\x00abc")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
	if d, err := ReadDown(read("\x00\x00\x00\x03abc")); err == nil {
		t.Errorf("neither message nor count: %+v", d)
	}
	if err := WriteDown(io.Discard, 1, make([]byte, Limit+100)); err == nil {
		t.Error("a giant is sent")
	}
}

func TestEndsOfTagsAreEscapedInPlace(t *testing.T) {
	for _, text := range []string{"", "<", "</", "a</b></</", "</</</x", strings.Repeat("</p>", 1000)} {
		if got, want := string(escaped([]byte(text))), strings.ReplaceAll(text, "</", `<\/`); got != want {
			t.Errorf("%.40q becomes %.40q", text, got)
		}
	}
}
