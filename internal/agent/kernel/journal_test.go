package kernel

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"slipway/kernels/wire"
)

// all returns what a client that has all up to a number is to get.
func all(t *testing.T, j *journal, after uint64) (got []string) {
	t.Helper()
	for e := j.next(after); e.seq != 0; e = j.next(after) {
		if e.seq <= after {
			t.Fatalf("message %d follows %d", e.seq, after)
		}
		if after = e.seq; e.data[0] == '-' || e.data[0] == '+' {
			got = append(got, strings.TrimRight(string(e.data), "."))
			continue
		}
		m, err := wire.DecodeV1(e.data)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, content(m).Name+content(m).Text)
	}
	return got
}

func piece(s string) []byte { return []byte(s + strings.Repeat(".", 100-len(s))) }

func TestJournalKeepsTheNewest(t *testing.T) {
	j := journal{limit: 500}
	j.add(entry{data: piece("+answer"), keep: true})
	for i := range 20 {
		j.add(entry{data: piece(fmt.Sprint("-", i))})
	}
	const want = "[+answer stderr\n[Slipway: 16 messages (1.6 KiB) were not kept]\n -16 -17 -18 -19]"
	if got := fmt.Sprint(all(t, &j, 0)); got != want {
		t.Errorf("%s\nis to be\n%s", got, want)
	}
	if got := fmt.Sprint(all(t, &j, 0)); got != want {
		t.Errorf("the second time: %s", got)
	}
	if got := fmt.Sprint(all(t, &j, 19)); got != "[-18 -19]" {
		t.Errorf("behind the loss: %s", got)
	}
	j.add(entry{data: []byte("-large" + strings.Repeat(".", 1000))})
	if got := all(t, &j, 0); got[len(got)-1] != "-large" {
		t.Errorf("the newest has gone: %s", got)
	}
}

func TestJournalForgetsWhatIsAcknowledged(t *testing.T) {
	j := journal{limit: 500}
	for i := range 10 {
		j.add(entry{data: piece(fmt.Sprint("-", i))})
	}
	j.ack(8)
	if got := fmt.Sprint(all(t, &j, j.acked)); got != "[-8 -9]" || j.bytes != 200 {
		t.Errorf("%s, %d bytes", got, j.bytes)
	}
	j.ack(3)
	j.ack(1 << 60)
	if got := all(t, &j, j.acked); got != nil || j.acked != 10 || j.bytes != 0 {
		t.Errorf("%s, %+v", got, j)
	}
	j.add(entry{data: piece("-next")})
	if e := j.next(10); e.seq != 11 {
		t.Errorf("the next is %d", e.seq)
	}
}

func TestJournalGivesOutOnce(t *testing.T) {
	j := journal{limit: 500}
	j.add(entry{data: piece("-1")})
	j.add(entry{data: piece("+2"), keep: true, once: true})
	j.add(entry{data: piece("-3")})
	for _, want := range []string{"[-1 +2 -3]", "[-1 -3]", "[-1 -3]"} {
		if got := fmt.Sprint(all(t, &j, 0)); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if j.bytes != 200 {
		t.Errorf("%d bytes", j.bytes)
	}
}

// A large message stays in the memory in which it came, and is the same on its way.
func TestLargeMessageIsNotCopied(t *testing.T) {
	content := []byte(`{"x":"` + strings.Repeat("x", largeBytes) + `"}`)
	m := wire.Message{Channel: wire.IOPub, Header: []byte(`{}`), Parent: []byte(`{"msg_id":"cell"}`), Metadata: []byte(`{}`), Content: content, Buffers: [][]byte{[]byte("b"), nil}}
	e := entryOf(m, false)
	pieces := e.pieces()
	if &pieces[1][0] != &content[0] || !bytes.Equal(bytes.Join(pieces, nil), wire.EncodeV1(m)) {
		t.Error("it is another")
	}
	j := journal{limit: 2 * largeBytes}
	if n := j.add(e) + j.add(entryOf(m, false)); n != 1 || j.bytes != m.Size() {
		t.Errorf("%d are dropped, %d bytes left", n, j.bytes)
	}
	notice, err := wire.DecodeV1(j.next(0).data)
	if err != nil || notice.ParentID() != "cell" {
		t.Errorf("%+v, %v", notice, err)
	}
	if large := j.ack(j.last); large != m.Size() || j.bytes != 0 {
		t.Errorf("%d bytes are free, and %d left", large, j.bytes)
	}
}
