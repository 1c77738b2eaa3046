package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Where an engine's directories cannot be reached, an environment's changes become a layer over its image. No archive
// that is copied into a container can delete, and a layer can. The engine is sent that layer alone: it finds those of
// the image by their digests.
const (
	kindThaw  = "thaw"         // the kind label of an image that is an environment over its base
	labelBase = "slipway.base" // on a container of such an image: the ID of the image that the environment stands on
)

// baseOf returns the ID of the image that a container's changes are counted from.
func baseOf(c container.InspectResponse) string {
	if base := c.Config.Labels[labelBase]; base != "" {
		return base
	}
	return c.Image
}

// thawLayered makes the container of a workload of an image that has its environment in it.
func (b *Backend) thawLayered(ctx context.Context, p plan, from spawner.Thaw) error {
	b.trees.Lock() // an image without a container is swept away
	defer b.trees.Unlock()
	p.Report("Sending the environment to the engine (its directories cannot be written, which would be quicker)", -1)
	base := p.image
	id, err := b.layered(ctx, base, from)
	if err != nil {
		return fmt.Errorf("start %s from environment %s: %w", p.ID, p.Spec.Environment, err)
	}
	p.image = id
	p.labels = map[string]string{labelImage: p.Spec.Image, labelBase: base}
	return b.order(ctx, nameOf(p.ID), p)
}

// layered returns the ID of an image that has an environment's changes as one more layer than its base. It runs under
// b.trees.
func (b *Backend) layered(ctx context.Context, base string, from spawner.Thaw) (string, error) {
	image, err := b.client.ImageInspect(ctx, base)
	if err != nil {
		return "", b.explain(err, "look at image %s", base)
	}
	dir, err := b.scratch(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			b.log.Error("an environment's copied changes cannot be removed", "path", dir, "error", err)
		}
	}()
	if err := from.Fill(ctx, dir); err != nil {
		return "", fmt.Errorf("fill a layer: %w", err)
	}
	if err := fewHoles(dir); err != nil {
		return "", err
	}
	return b.imageWith(ctx, image, dir)
}

// maxHoles bounds the zeros that the engine is sent: layers have no holes, and it writes all of them to its disk.
const maxHoles = 16 << 30

// fewHoles refuses changes whose holes are many times what anybody wants as zeros.
func fewHoles(dir string) error {
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

// imageWith returns the ID of an image over another that shows an upper directory's changes. One that is there already
// is taken.
func (b *Backend) imageWith(ctx context.Context, image client.ImageInspectResult, dir string) (string, error) {
	sum := &summing{hash: sha256.New()}
	if err := writeLayer(ctx, sum, dir); err != nil {
		return "", fmt.Errorf("make a layer: %w", err)
	}
	config, err := b.configOver(image, sum.digest())
	if err != nil {
		return "", err
	}
	id := digestOf(config)
	if _, err := b.client.ImageInspect(ctx, id); err == nil {
		return id, nil
	}
	err = b.load(ctx, func(w io.Writer) error {
		return writeImage(w, config, len(image.RootFS.Layers), sum.size, func(w io.Writer) error { return writeLayer(ctx, w, dir) })
	})
	if err == nil {
		_, err = b.client.ImageInspect(ctx, id)
	}
	if err != nil {
		return "", errs.New(errs.Missing, "the engine does not take the environment as a layer over its image: %w", err).
			With("let the service run on the engine's host as root, or start from an image")
	}
	return id, nil
}

// scratch makes an empty directory that prune removes after a kill.
func (b *Backend) scratch(ctx context.Context) (string, error) {
	if b.cfg.Scratch == "" {
		return "", errs.New(errs.Missing, "the engine's directories cannot be written, and there is no place to unpack an environment").
			With("let the service run on the engine's host as root, or start from an image")
	}
	if err := b.prune(ctx); err != nil {
		return "", err
	}
	name := make([]byte, sha256.Size)
	_, _ = rand.Read(name) // never fails
	dir := filepath.Join(b.cfg.Scratch, hex.EncodeToString(name)+unfinished)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("unpack the environment: %w", err)
	}
	return dir, nil
}

// summing counts and hashes what is written to it.
type summing struct {
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	size int64
}

func (s *summing) Write(b []byte) (int, error) {
	s.size += int64(len(b))
	return s.hash.Write(b)
}

func (s *summing) digest() string { return "sha256:" + hex.EncodeToString(s.hash.Sum(nil)) }

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// configOver describes an image of one layer more. Equal layers give equal images.
func (b *Backend) configOver(image client.ImageInspectResult, layer string) ([]byte, error) {
	config, labels := map[string]any{}, map[string]string{}
	if image.Config != nil {
		text, err := json.Marshal(image.Config)
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil {
			return nil, fmt.Errorf("describe an image over %s: %w", image.ID, err)
		}
		maps.Copy(labels, image.Config.Labels)
	}
	labels[labelInstance], labels[labelKind], labels[labelID] = b.cfg.Instance, kindThaw, ""
	config["Labels"] = labels
	layers := append(append([]string{}, image.RootFS.Layers...), layer)
	return json.Marshal(map[string]any{
		"architecture": image.Architecture, "variant": image.Variant, "os": image.Os, "created": time.Unix(0, 0).UTC(), "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": layers},
	})
}

// writeImage writes an archive as engines load them, of an image that lacks all layers but the last: the engine has
// them.
func writeImage(w io.Writer, config []byte, lacking int, size int64, layer func(io.Writer) error) error {
	t := tar.NewWriter(w)
	var names []string
	for i := range lacking {
		names = append(names, fmt.Sprintf("base/%d.tar", i))
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": nil, "Layers": append(names, "layer.tar")}})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"config.json": config, "manifest.json": manifest} {
		err = errors.Join(err, t.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}))
		if err == nil {
			_, err = t.Write(text)
		}
	}
	if err == nil {
		err = t.WriteHeader(&tar.Header{Name: "layer.tar", Typeflag: tar.TypeReg, Mode: 0o644, Size: size, Format: tar.FormatPAX})
	}
	if err == nil {
		err = layer(t)
	}
	return errors.Join(err, t.Close())
}

// load sends an archive to the engine.
func (b *Backend) load(ctx context.Context, write func(io.Writer) error) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	answer, err := b.client.ImageLoad(ctx, r, client.ImageLoadWithQuiet(true))
	if err == nil {
		err = errors.Join(loaded(answer), answer.Close())
	}
	_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // never fails
	if wrote := <-done; wrote != nil && !errors.Is(wrote, io.ErrClosedPipe) {
		return wrote
	}
	return err
}

// loaded reads what an engine says of a load. A failure comes with a good status.
func loaded(r io.Reader) error {
	for d := json.NewDecoder(io.LimitReader(r, mostOfLog)); ; {
		var m struct {
			Error string `json:"error"`
		}
		err := d.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
	}
}

// The names by which a layer says what it deletes.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// writeLayer writes an upper directory as a layer. The same directory gives the same bytes. Holes become zeros, and /
// itself stays the image's.
func writeLayer(ctx context.Context, w io.Writer, dir string) error {
	l := &layering{ctx: ctx, t: tar.NewWriter(w), dir: dir, links: map[uint64]string{}}
	return errors.Join(filepath.WalkDir(dir, l.entry), l.t.Close())
}

type layering struct {
	ctx   context.Context
	t     *tar.Writer
	dir   string
	links map[uint64]string // the first names of files with several
}

func (l *layering) entry(at string, d fs.DirEntry, err error) error {
	if err == nil {
		err = l.ctx.Err()
	}
	name, relErr := filepath.Rel(l.dir, at)
	if err = errors.Join(err, relErr); err != nil || name == "." {
		return err
	}
	if strings.HasPrefix(d.Name(), whiteoutPrefix) {
		return errs.New(errs.Conflict, "the name of %q has a meaning of its own in images, and this engine takes environments as images alone", name).
			With("let the service run on the engine's host as root, or rename it and freeze again")
	}
	h, err := headerOf(at)
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

// sweepThawed removes the images of environments of which no container is left. It waits for nobody: whoever thaws or
// fetches now has its own swept later.
func (b *Backend) sweepThawed(ctx context.Context) {
	if !b.trees.TryLock() {
		return
	}
	defer b.trees.Unlock()
	if err := b.sweepThawedLocked(ctx); err != nil {
		b.log.Warn("an environment that no container uses stays in the engine; the next removal tries again", "error", err)
	}
}

func (b *Backend) sweepThawedLocked(ctx context.Context) error {
	list, err := b.client.ImageList(ctx, client.ImageListOptions{All: true, Filters: b.ours().Add("label", labelKind+"="+kindThaw)})
	if err != nil {
		return b.explain(err, "look for environments that nobody uses")
	}
	for _, i := range list.Items {
		_, err := b.client.ImageRemove(ctx, i.ID, client.ImageRemoveOptions{})
		if err != nil && !gone(err) && !cerrdefs.IsConflict(err) { // a conflict: a container has it
			return b.explain(err, "remove the environment %s that nobody uses", i.ID)
		}
	}
	return nil
}
