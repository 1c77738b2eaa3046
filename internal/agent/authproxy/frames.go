package authproxy

import "encoding/binary"

// frames reads the frames of a websocket as they pass by (RFC 6455, section 5.2), in pieces of any size.
type frames struct {
	head [14]byte
	have int    // bytes of head
	left uint64 // bytes to come of the payload
}

// scan returns the bytes of the messages that begin in b and are more than signs of life.
func (f *frames) scan(b []byte) (count int) {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(b)))
			f.left -= n
			b = b[n:]
			continue
		}
		f.head[f.have] = b[0]
		f.have++
		b = b[1:]
		if f.have < 2 || f.have < f.size() {
			continue
		}
		f.left, f.have = f.length(), 0
		if control := f.head[0]&0x8 != 0; !control && f.left > small {
			count += int(min(f.left, 1<<20))
		}
	}
	return count
}

// size is how long the head is, once two bytes of it are there.
func (f *frames) size() int {
	n := 2
	switch f.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.head[1]&0x80 != 0 {
		n += 4 // the mask
	}
	return n
}

// length is the payload's.
func (f *frames) length() uint64 {
	switch l := f.head[1] & 0x7f; l {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.head[2:])
	default:
		return uint64(l)
	}
}
