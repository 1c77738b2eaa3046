package hubapi

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readAll(r io.Reader) (events []ServerEvent, err error) {
	for er := NewEventReader(r); ; {
		e, err := er.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func TestEventReader(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []ServerEvent
	}{
		{"plain", "data: a\n\n", []ServerEvent{{"message", "", "a"}}},
		{"named with id", "event: done\nid: 7\ndata: a\n\n", []ServerEvent{{"done", "7", "a"}}},
		{"id stays, name does not", "event: x\nid: 7\ndata: a\n\ndata: b\n\n", []ServerEvent{{"x", "7", "a"}, {"message", "7", "b"}}},
		{"lines are joined", "data: a\ndata: b\n\n", []ServerEvent{{"message", "", "a\nb"}}},
		{"comments and unknown fields", ": alive\nretry: 3\ndata: a\n\n", []ServerEvent{{"message", "", "a"}}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []ServerEvent{{"message", "", "a"}, {"message", "", "b"}}},
		{"CR", "data: a\r\rdata: b\r\r", []ServerEvent{{"message", "", "a"}, {"message", "", "b"}}},
		{"byte order mark", "\ufeffdata: a\n\n", []ServerEvent{{"message", "", "a"}}},
		{"cut off", "data: a\n\ndata: b\n", []ServerEvent{{"message", "", "a"}}},
		{"without data", "event: x\n\ndata: a\n\n", []ServerEvent{{"message", "", "a"}}},
		{"only one space goes", "data:  a\n\n", []ServerEvent{{"message", "", " a"}}},
		{"nothing", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				got, err := readAll(r)
				if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
					t.Errorf("%v\n%s", err, diff)
				}
			}
		})
	}
}

func TestEventReaderIsBounded(t *testing.T) {
	for _, in := range []string{"data: " + strings.Repeat("x", eventLimit+1), strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 5)} {
		if _, err := readAll(strings.NewReader(in)); err == nil {
			t.Error("an event without bounds was read")
		}
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add("event: x\r\nid: 1\rdata: a\n\n: c\n\ndata")
	f.Fuzz(func(t *testing.T, in string) {
		whole, err1 := readAll(strings.NewReader(in))
		bits, err2 := readAll(iotest.OneByteReader(strings.NewReader(in)))
		if diff := cmp.Diff(whole, bits); diff != "" || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v, %v\n%s", err1, err2, diff)
		}
	})
}
