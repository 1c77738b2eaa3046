package zmtp

import "io"

const (
	trusted = 64 << 10 // bytes that are made room for because the peer says that they come
	further = 4        // there is room for so many times what has come
)

// ReadN reads n bytes, with room for a few times what has come until then and no more: that a peer says so is no reason
// to have memory for them. In the end there is as much as was read, and while the last of it came a quarter more.
func ReadN(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, trusted))
	for at := 0; ; {
		got, err := io.ReadFull(r, b[at:])
		if at += got; err != nil || at == n {
			return b[:at], err
		}
		more := make([]byte, min(n, further*at))
		copy(more, b)
		b = more
	}
}
