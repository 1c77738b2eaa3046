package squashfs

import "unsafe"

// slab cuts values from large pieces.
type slab[T any] struct {
	free  []T
	bytes int64
}

const slabLength = 1024

func (s *slab[T]) one() *T { return &s.many(1)[0] }

func (s *slab[T]) many(n int) []T {
	if n == 0 {
		return nil
	}
	if n > len(s.free) {
		size := slabLength
		if n > slabLength/8 {
			size = n // by itself, so that what is left of the piece stays of use
		}
		var zero T
		s.bytes += int64(size) * int64(unsafe.Sizeof(zero))
		fresh := make([]T, size)
		if size == n {
			return fresh
		}
		s.free = fresh
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

func (s *slab[T]) copy(from []T) []T {
	to := s.many(len(from))
	copy(to, from)
	return to
}
