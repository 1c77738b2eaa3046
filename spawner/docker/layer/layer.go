package layer

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// maxHoles bounds the zeros that the engine is sent: layers have no holes, and it writes all of them to its disk.
const maxHoles = 16 << 30

// CheckHoles refuses changes whose holes are many times what anybody wants as zeros.
func CheckHoles(dir string) error {
	var sum int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		if sum += max(0, st.Size-st.Blocks*512); sum > maxHoles {
			return errs.New(errs.Conflict, "the holes of the environment's files, such as %s, would be more than %d GB of zeros in the engine",
				strings.TrimPrefix(path, dir), int64(maxHoles)>>30).
				With("make the file smaller and freeze again, or let the service run on the engine's host as root, which keeps holes")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at the environment's files: %w", err)
	}
	return nil
}

// Measure returns the digest and the size of what Write writes.
func Measure(ctx context.Context, dir string) (digest string, size int64, err error) {
	sum, n := sha256.New(), counter(0)
	err = Write(ctx, io.MultiWriter(sum, &n), dir)
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), int64(n), err
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// The names by which a layer says what it deletes.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// Write writes an upper directory as a layer. The same directory gives the same bytes. Holes become zeros, and /
// itself stays the image's.
func Write(ctx context.Context, w io.Writer, dir string) error {
	l := &layering{t: tar.NewWriter(w), dir: dir, links: map[uint64]string{}}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return l.entry(at, d)
	})
	return errors.Join(err, l.t.Close())
}

// layering writes the entries of an upper directory.
type layering struct {
	t     *tar.Writer
	dir   string
	links map[uint64]string // the first names of files with several
}

func (l *layering) entry(at string, d fs.DirEntry) error {
	name, err := filepath.Rel(l.dir, at)
	if err != nil || name == "." {
		return err
	}
	if strings.HasPrefix(d.Name(), whiteoutPrefix) {
		return errs.New(
			errs.Conflict,
			"the name of %q has a meaning of its own in images, and this engine takes environments as images alone",
			name,
		).With("let the service run on the engine's host as root, or rename it and freeze again")
	}
	h, err := HeaderOf(at)
	if err != nil {
		return err
	}
	h.Name, h.Format = name, tar.FormatPAX
	if h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0 {
		return l.mark(filepath.Join(filepath.Dir(name), whiteoutPrefix+filepath.Base(name)))
	}
	if h.Typeflag == 0 {
		return nil // a socket, which no archive holds
	}
	return l.add(at, h)
}

// mark writes one of the names that delete.
func (l *layering) mark(name string) error {
	return l.t.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Format: tar.FormatPAX})
}

func (l *layering) add(at string, h *tar.Header) error {
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return err
	}
	if st.Nlink > 1 && h.Typeflag != tar.TypeDir {
		if first, known := l.links[st.Ino]; known {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0 // with all attributes: engines set them once more
			return l.t.WriteHeader(h)
		}
		l.links[st.Ino] = h.Name
	}
	switch h.Typeflag {
	case tar.TypeDir:
		h.Name += "/"
		if err := l.t.WriteHeader(h); err != nil || !isOpaque(at) {
			return err
		}
		return l.mark(h.Name + opaqueName)
	case tar.TypeReg:
		if err := l.t.WriteHeader(h); err != nil {
			return err
		}
		return l.content(at, h.Size)
	default:
		return l.t.WriteHeader(h)
	}
}

func isOpaque(dir string) bool {
	value := make([]byte, 2)
	n, err := unix.Lgetxattr(dir, "trusted.overlay.opaque", value)
	return err == nil && string(value[:n]) == "y"
}

func (l *layering) content(at string, size int64) error {
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(l.t, f, size)
	return err
}
