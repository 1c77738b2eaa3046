package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// image returns the path of the image, and what lets go of it.
func (w *worker) image(ctx context.Context) (path string, release func(), err error) {
	path, missing := w.atPath()
	if missing == nil {
		return path, func() {}, nil
	}
	return w.fetched(ctx, missing)
}

var errNoPath = errors.New("no path to it is known")

// atPath returns the image that the node has already: a file, or a directory as those are that CVMFS has.
func (w *worker) atPath() (string, error) {
	path := w.plan.Image.Path
	if path == "" {
		return "", errNoPath
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
	return path, checkImage(path)
}

// checkImage refuses a file that is no image, or not all of one. How large an image is it says itself: its environment
// does not, for whoever signs an image adds to it.
func checkImage(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // what is no file is not waited for
	if err != nil {
		return err
	}
	defer f.Close()
	return checkOpen(f)
}

// checkOpen is checkImage of an open file.
func checkOpen(f *os.File) error {
	path := f.Name()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, 128)
	if _, err := f.ReadAt(head, 0); err != nil || !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no image for Apptainer", path)
	}
	least, known := imageSize(head)
	if !known {
		return fmt.Errorf("%s is no image for Apptainer", path)
	}
	if st.Size() < least {
		return fmt.Errorf("%s is damaged: it has %d bytes of %d", path, st.Size(), least)
	}
	return nil
}

// imageSize reads from its first 128 bytes how many an image has: a SIF, or a squashfs alone.
func imageSize(head []byte) (n int64, known bool) {
	const sifMagic, sifMagicAt, sifDataAt, squashMagic, squashUsedAt = "SIF_MAGIC\x00", 32, 112, "hsqs", 40
	number := func(at int) int64 { return int64(binary.LittleEndian.Uint64(head[at:])) }
	switch {
	case bytes.HasPrefix(head[sifMagicAt:], []byte(sifMagic)):
		n = number(sifDataAt) + number(sifDataAt+8)
	case bytes.HasPrefix(head, []byte(squashMagic)):
		n = number(squashUsedAt)
	}
	return n, n > 0
}

// fetched returns the image from the node's cache, or from the service. missing is why it is not where the plan has it.
func (w *worker) fetched(ctx context.Context, missing error) (path string, release func(), err error) {
	get, err := w.download()
	if err != nil {
		return "", nil, w.noImage(missing, err)
	}
	w.log.Info("the image has to be fetched", "why", missing)
	if w.plan.Cache != "" {
		path, release, err = w.fromCache(ctx, get)
		if err == nil || ctx.Err() != nil {
			return path, release, err
		}
		if !errors.Is(err, errNoCache) {
			return "", nil, w.noImage(missing, err)
		}
		w.log.Warn("the image is fetched for this run alone", "error", err)
	}
	path = w.box.own(imageFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, err
	}
	err = errors.Join(get.into(ctx, f), f.Close())
	if err == nil {
		err = checkImage(path)
	}
	if err != nil {
		return "", nil, w.noImage(missing, errors.Join(err, os.Remove(path)))
	}
	return path, func() {}, nil
}

// errNoCache says that the node has no cache for this image, which is no reason not to fetch it.
var errNoCache = errors.New("the node's cache cannot be used")

func (w *worker) fromCache(ctx context.Context, get *download) (path string, release func(), err error) {
	digits, ok := strings.CutPrefix(w.plan.Image.Digest, "sha256:")
	if !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", nil, fmt.Errorf("%w: %q is no digest", errNoCache, w.plan.Image.Digest)
	}
	c, err := openCache(w.plan.Cache, w.plan.CacheSize, w.log)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNoCache, err)
	}
	var failed error
	path, release, err = c.get(ctx, digits, w.plan.Image.Size, func(ctx context.Context, f *os.File) error {
		failed = get.into(ctx, f)
		return failed
	})
	if err != nil && (failed == nil || errs.Is(failed, errs.NoSpace)) {
		return "", nil, fmt.Errorf("%w: %w", errNoCache, err)
	}
	return path, release, err
}

// download is how the image comes from the service.
func (w *worker) download() (*download, error) {
	u, err := w.box.uplink()
	if errors.Is(err, fs.ErrNotExist) || err == nil && u.Image == "" {
		return nil, errs.New(errs.Missing, "no address is known at which the service has it").
			With(administrator + ": the nodes need the directory of images that they share with the service, or the service an uplink.url")
	}
	if err != nil {
		return nil, err
	}
	return newDownload(u, w.log)
}

// noImage says that the image is not to be had, neither where the plan has it nor from the service.
func (w *worker) noImage(missing, err error) error {
	remedy := remedyOf(err)
	if e := noRoom(err); errs.Is(e, errs.NoSpace) {
		return e
	}
	const what = "the image of environment %.19s is not to be had on the worker node: "
	if errors.Is(missing, errNoPath) {
		return errs.New(errs.NotFound, what+"%s", w.plan.Image.Digest, errs.Brief(err)).With(remedy)
	}
	return errs.New(errs.NotFound, what+"%s; %s", w.plan.Image.Digest, missing, errs.Brief(err)).With(remedy)
}

// remedyOf returns what an error says is to be done.
func remedyOf(err error) string {
	if told, ok := errors.AsType[*errs.Error](err); ok && told.Remedy != "" {
		return told.Remedy
	}
	return administrator
}
