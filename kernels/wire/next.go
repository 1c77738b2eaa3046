package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
)

// Next waits for the next frame of a stream and gives its size without reading it.
func Next(r *bufio.Reader) (int64, error) {
	size, err := r.Peek(4)
	if err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint32(size))
	if n > Limit+16 {
		return 0, fmt.Errorf("the stream has a frame of %d bytes, and at most %d", n, Limit)
	}
	return n, nil
}
