package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"slipway/internal/errs"
)

// image gives the path of the image, and what lets go of it.
func (w *worker) image(ctx context.Context) (path string, release func(), err error) {
	path, missing := w.atPath()
	if missing == nil {
		return path, func() {}, nil
	}
	return w.fetched(ctx, missing)
}

// atPath gives the image that the node has already: a file, or a directory as those are that CVMFS has.
func (w *worker) atPath() (string, error) {
	path := w.plan.Image.Path
	if path == "" {
		return "", errors.New("no path to it is known")
	}
	if !filepath.IsAbs(path) {
		path = w.box.path(path)
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no %s", path)
	}
	if err != nil || st.IsDir() {
		return path, err
	}
	return path, checkImage(path, w.plan.Image.Size)
}

// checkImage refuses a file that is no image, or not all of one. size 0: it is not known.
func checkImage(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || size > 0 && st.Size() != size {
		return fmt.Errorf("%s has %d bytes, and the image has %d", path, st.Size(), size)
	}
	const sifMagic, sifAt, squashMagic = "SIF_MAGIC\x00", 32, "hsqs"
	head := make([]byte, sifAt+len(sifMagic))
	if _, err := io.ReadFull(f, head); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if !bytes.HasSuffix(head, []byte(sifMagic)) && !bytes.HasPrefix(head, []byte(squashMagic)) {
		return fmt.Errorf("%s is no image for Apptainer", path)
	}
	return nil
}

// noImage says that the image is not to be had.
func noImage(digest string, missing error) error {
	return errs.New(errs.NotFound, "the image of environment %.19s is not to be had on the worker node: %w", digest, missing).With(administrator)
}
