package zmtp

import (
	"bytes"
	"testing"
	"testing/iotest"
)

func TestRoomFollowsWhatCame(t *testing.T) {
	for _, n := range []int{0, 1, trusted, trusted + 1, 20*trusted + 3} {
		want := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		if b, err := ReadN(iotest.HalfReader(bytes.NewReader(append(want, "next"...))), n); !bytes.Equal(b, want) || cap(b) != n || err != nil {
			t.Errorf("%d bytes: %d in room for %d, %v", n, len(b), cap(b), err)
		}
	}
	for _, came := range []int{0, 100, trusted, 5 * trusted} {
		b, err := ReadN(bytes.NewReader(make([]byte, came)), Limit)
		if len(b) != came || cap(b) > max(trusted, further*came) || err == nil {
			t.Errorf("%d bytes of %d: %d in room for %d, %v", came, Limit, len(b), cap(b), err)
		}
	}
}
