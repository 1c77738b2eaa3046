package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
)

func TestNext(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDown(&b, 7, []byte("message")); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(&b)
	for range 2 { // it reads nothing
		if n, err := Next(r); n != 8+7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if d, err := ReadDown(r); d.Seq != 7 || string(d.Message) != "message" || err != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := Next(r); err == nil {
		t.Error("there is another at the end")
	}
	if n, err := Next(bufio.NewReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, Limit+17)))); err == nil {
		t.Errorf("a frame of %d bytes is to be read", n)
	}
}
