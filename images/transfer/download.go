package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

// partial ends the names of files that are not complete. One that is left by a pull that was killed is gone on with.
const partial = ".part"

// download receives one blob into a file.
type download struct {
	*place
	oci.Descriptor
	file *os.File
	hash hash.Hash
	at   int64 // bytes in the file, and in the hash
	old  bool  // some of them are from before
}

// fetch makes sure that dir has a blob, in a file named by the hexadecimal part of its digest.
func (p *place) fetch(ctx context.Context, d oci.Descriptor, dir string) (path string, err error) {
	name, _ := blob.Hex(d.Digest.String())
	path = filepath.Join(dir, name)
	file, err := lock(path + partial)
	if err != nil {
		return "", err
	}
	defer file.Close()
	g := &download{place: p, Descriptor: d, file: file, hash: sha256.New()}
	if st, err := os.Stat(path); err == nil && st.Size() == d.Size {
		p.meter.done(d)
		if err := os.Remove(path + partial); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		return path, nil
	}
	if err := g.run(ctx); err != nil {
		return "", err
	}
	p.meter.done(d)
	return path, keep(file, path)
}

// keep gives a complete file its name, durably.
func keep(f *os.File, path string) error {
	if err := f.Sync(); err != nil {
		return space(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// space tells a full disk from other errors.
func space(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errs.New(errs.NoSpace, "%w", err)
	}
	return err
}

// run receives and verifies. Bytes from before may have been damaged since: with them a wrong digest means one more
// attempt.
func (g *download) run(ctx context.Context) error {
	if err := g.resume(); err != nil {
		return err
	}
	for {
		if err := g.receive(ctx); err != nil {
			return err
		}
		if blob.Named(g.hash.Sum(nil)) == g.Digest.String() {
			return nil
		}
		if !g.old {
			err := errs.New(
				errs.Invalid, "what %s gives for %s has another digest, and is not kept", g.ref.Host, g.Digest,
			)
			return errors.Join(err, os.Remove(g.file.Name()))
		}
		if err := g.restart(); err != nil {
			return err
		}
	}
}

// resume takes up what is there.
func (g *download) resume() error {
	n, err := io.Copy(g.hash, io.LimitReader(g.file, g.Size+1))
	if err != nil {
		return err
	}
	if g.at, g.old = n, n > 0; n > g.Size {
		return g.restart()
	}
	return nil
}

func (g *download) restart() error {
	g.hash.Reset()
	g.at, g.old = 0, false
	_, err := g.file.Seek(0, io.SeekStart)
	return errors.Join(err, g.file.Truncate(0))
}

func (g *download) receive(ctx context.Context) error {
	var tries patience
	for g.at < g.Size {
		g.meter.at(g.Descriptor, g.at)
		err := g.attempt(ctx)
		if err == nil {
			continue
		}
		if err := g.again(ctx, &tries, err, g.at); err != nil {
			return err
		}
	}
	return nil
}

// attempt receives what one answer brings.
func (g *download) attempt(ctx context.Context) error {
	q := query{
		what: "receive " + g.Digest.String(), method: http.MethodGet, url: g.url("blobs", g.Digest.String()),
		want:   []int{http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable},
		header: map[string]string{},
	}
	if g.at > 0 {
		q.header["Range"] = fmt.Sprintf("bytes=%d-", g.at)
	}
	resp, err := g.do(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	begins := fmt.Sprintf("bytes %d-", g.at)
	if resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), begins) {
		if err := g.restart(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return cut(q.what, fmt.Errorf("%s does not go on where it is asked to", g.ref.Host))
		}
	}
	return g.take(resp.Body, q.what)
}

// take writes what comes, and not a byte more than there should be.
func (g *download) take(body io.Reader, what string) error {
	out := io.MultiWriter(g.file, g.hash)
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if g.at+int64(n) > g.Size {
			err := errs.New(errs.Invalid, "%s gives more than the %d bytes of %s", g.ref.Host, g.Size, g.Digest)
			return errors.Join(err, os.Remove(g.file.Name()))
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return space(err)
		}
		g.at += int64(n)
		g.meter.move(n)
		switch {
		case err == io.EOF && g.at < g.Size:
			return cut(what, io.ErrUnexpectedEOF)
		case err == io.EOF:
			return nil
		case err != nil:
			return cut(what, err)
		}
	}
}
