package authproxy

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// frame is one that a browser sends.
func frame(opcode byte, size int) []byte {
	head := []byte{0x80 | opcode, 0x80}
	switch {
	case size < 126:
		head[1] |= byte(size)
	case size < 1<<16:
		head[1] |= 126
		head = binary.BigEndian.AppendUint16(head, uint16(size))
	default:
		head[1] |= 127
		head = binary.BigEndian.AppendUint64(head, uint64(size))
	}
	return append(append(head, 1, 2, 3, 4), make([]byte, size)...)
}

func TestFrames(t *testing.T) {
	const binary, ping = 2, 9
	stream := bytes.Join([][]byte{
		frame(binary, 0), frame(binary, 7), frame(binary, small), frame(ping, 100), frame(binary, small+1), frame(binary, 125), frame(binary, 126),
		frame(binary, 65535), frame(binary, 65536), frame(binary, 7),
	}, nil)
	const want = small + 1 + 125 + 126 + 65535 + 65536
	for _, piece := range []int{1, 3, 7, 1000, len(stream)} {
		var f frames
		got := 0
		for rest := stream; len(rest) > 0; {
			n := min(piece, len(rest))
			got += f.scan(rest[:n])
			rest = rest[n:]
		}
		if got != want || f.left != 0 || f.have != 0 {
			t.Errorf("in pieces of %d: %d bytes, want %d; %+v", piece, got, want, f)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(2, 300), 5)
	f.Add([]byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1}, 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, parts frames
		cut = min(max(cut, 0), len(b))
		one := whole.scan(b)
		if two := parts.scan(b[:cut]) + parts.scan(b[cut:]); one != two || whole.left != parts.left || whole.have != parts.have {
			t.Errorf("%x cut at %d: %d, %d", b, cut, one, two)
		}
	})
}
