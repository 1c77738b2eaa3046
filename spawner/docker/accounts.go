package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/accounts"
)

// The generated files of a launch's directory that stand in for the image's own.
const (
	passwdFile = "passwd"
	groupFile  = "group"
)

// imageAccounts is what an image says of its users.
type imageAccounts struct {
	passwd, group []byte
	shell         string // the best that it has
}

// writeAccounts makes the files by which programs in the workload find the name of its user. They are bound read-only,
// so they are no part of its changes. A file is replaced, not rewritten: a running container goes on with the one that
// it has.
func (b *Backend) writeAccounts(ctx context.Context, l spawner.Launch, image string) error {
	has, err := b.accountsOf(ctx, image)
	if err != nil {
		return err
	}
	users, groups := accounts.OfImage(l.Account, has.passwd, has.group, has.shell)
	for name, text := range map[string][]byte{passwdFile: users, groupFile: groups} {
		if err := replace(filepath.Join(l.Dir, name), text); err != nil {
			return fmt.Errorf("start %s: %w", l.ID, err)
		}
	}
	return nil
}

func replace(name string, text []byte) error {
	tmp := name + ".new"
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o644); err != nil { // whatever the umask
		return err
	}
	return os.Rename(tmp, name)
}

// accountsOf reads what an image says of its users, once per image.
func (b *Backend) accountsOf(ctx context.Context, image string) (imageAccounts, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.accounts[image]; ok {
		return a, nil
	}
	a, err := b.probe(ctx, image)
	if err != nil {
		return a, err
	}
	b.accounts[image] = a
	return a, nil
}

// The kind labels of containers that never run and have no ID label. There is one of a kind at a time.
const (
	kindProbe = "probe" // for the accounts of an image; made under Backend.mu
	kindTree  = "tree"  // for a whole tree; made under Backend.trees
)

// probe reads files of an image through a container that is never started. It runs under b.mu.
func (b *Backend) probe(ctx context.Context, image string) (a imageAccounts, err error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	err = b.still(whole, kindProbe, image, func(container string) error {
		a, err = b.read(whole, container)
		return err
	})
	if err != nil {
		return a, b.explain(err, "read the accounts of image %s", image)
	}
	return a, nil
}

// still calls do with a container of an image that is never started, and removes it. What a killed service left of the
// kind goes first.
func (b *Backend) still(ctx context.Context, kind, image string, do func(container string) error) error {
	if err := b.sweep(ctx, kind); err != nil {
		return err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	made, err := b.client.ContainerCreate(whole, client.ContainerCreateOptions{Config: &container.Config{
		Image: image, WorkingDir: "/", Entrypoint: []string{"/none"},
		Labels: map[string]string{labelInstance: b.cfg.Instance, labelKind: kind, labelID: ""},
	}, HostConfig: &container.HostConfig{NetworkMode: "none"}})
	if err != nil {
		return b.explain(err, "make a container of image %s to look into it", image)
	}
	err = do(made.ID)
	whole, cancel = context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	if _, failed := b.client.ContainerRemove(whole, made.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); failed != nil {
		b.log.Warn(
			"a container that was to look into an image stays until the next one", "container", made.ID, "error",
			failed,
		)
	}
	return err
}

// sweep removes what a killed service left of a kind.
func (b *Backend) sweep(ctx context.Context, kind string) error {
	left := b.ours().Add("label", labelKind+"="+kind)
	list, err := b.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: left})
	if err != nil {
		return b.explain(err, "look for leftovers")
	}
	for _, c := range list.Items {
		_, err := b.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !gone(err) {
			return b.explain(err, "remove the leftover %s", c.ID)
		}
	}
	return nil
}

func (b *Backend) read(ctx context.Context, container string) (a imageAccounts, err error) {
	if a.passwd, err = b.file(ctx, container, "/etc/passwd"); err != nil {
		return a, err
	}
	if a.group, err = b.file(ctx, container, "/etc/group"); err != nil {
		return a, err
	}
	a.shell = "/bin/sh"
	_, err = b.client.ContainerStatPath(ctx, container, client.ContainerStatPathOptions{Path: "/bin/bash"})
	if err == nil {
		a.shell = "/bin/bash"
	} else if !gone(err) {
		return a, err
	}
	return a, nil
}

// mostOfFile bounds what is read of an image's file.
const mostOfFile = 4 << 20

// file reads one file of a container; one that is not there is empty.
func (b *Backend) file(ctx context.Context, container, path string) ([]byte, error) {
	r, err := b.client.CopyFromContainer(ctx, container, client.CopyFromContainerOptions{SourcePath: path})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := firstFile(r.Content)
	if closing := r.Content.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// firstFile reads the first entry of an archive, which must be a regular file.
func firstFile(r io.Reader) ([]byte, error) {
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil {
		return nil, fmt.Errorf("read the engine's archive: %w", err)
	}
	if h.Typeflag != tar.TypeReg || h.Size > mostOfFile {
		return nil, errs.New(
			errs.Invalid, "%s of the image is no ordinary file of at most %s bytes", h.Name, strconv.Itoa(mostOfFile),
		)
	}
	var text bytes.Buffer
	if _, err := io.Copy(&text, t); err != nil {
		return nil, fmt.Errorf("read the engine's archive: %w", err)
	}
	return text.Bytes(), nil
}
