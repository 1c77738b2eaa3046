package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// file writes a regular file, from where on it differs from the base's: what was equal until then is read from there.
func (u *Unpacking) file(name string, h *tar.Header, r io.Reader) error {
	if u.Base == "" || !u.alike(name, h) {
		return u.write(name, h, r)
	}
	f, err := os.Open(filepath.Join(u.Base, name))
	if err != nil {
		return err
	}
	defer f.Close()
	equal, rest, err := compare(f, r)
	if err == nil && rest == nil && equal != h.Size {
		err = fmt.Errorf("%w: %d of %d bytes", io.ErrUnexpectedEOF, equal, h.Size)
	}
	if err != nil || rest == nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return u.write(name, h, io.MultiReader(io.LimitReader(f, equal), bytes.NewReader(rest), r))
}

// compareSize is how much of two files is compared at once.
const compareSize = 64 << 10

// compare reads both as long as they are equal. It returns how much that was, and what it has read of b behind that; nil
// when all was equal.
func compare(a, b io.Reader) (equal int64, rest []byte, err error) {
	left, right := make([]byte, compareSize), make([]byte, compareSize)
	for {
		n, err := io.ReadFull(b, right)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return equal, nil, err
		}
		m, _ := io.ReadFull(a, left[:n])
		if !bytes.Equal(left[:m], right[:n]) {
			return equal, right[:n], nil
		}
		if equal += int64(n); last {
			return equal, nil, nil
		}
	}
}

// write makes a regular file, with holes for zeros.
func (u *Unpacking) write(name string, h *tar.Header, r io.Reader) error {
	if err := u.parents(name); err != nil {
		return err
	}
	f, err := os.OpenFile(u.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	n, err := copyHoles(f, r)
	if err == nil && n != h.Size {
		err = fmt.Errorf("%w: %d of %d bytes", io.ErrUnexpectedEOF, n, h.Size)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	u.made[name] = true
	return u.attributes(name, h)
}

// copyHoles copies r, and leaves out what is only zeros.
func copyHoles(f *os.File, r io.Reader) (size int64, err error) {
	buf, zeros := make([]byte, compareSize), make([]byte, compareSize)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := f.WriteAt(buf[:n], size); err != nil {
				return size, err
			}
		}
		size += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return size, f.Truncate(size)
		}
		if err != nil {
			return size, err
		}
	}
}
