package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
)

// The generated files of a launch's directory that stand in for the image's own.
const (
	passwdFile = "passwd"
	groupFile  = "group"
)

// accounts is what an image says of its users.
type accounts struct {
	passwd, group []byte
	shell         string // the best that it has
}

// validAccount refuses what is not fit for a line of /etc/passwd.
func validAccount(a spawner.Account) error {
	bad := func(s string) bool { return s == "" || strings.ContainsAny(s, ":\n\x00") }
	switch {
	case bad(a.Login):
		return errs.Bad("login", a.Login, "a name without colons and line ends")
	case bad(a.Home) || !strings.HasPrefix(a.Home, "/"):
		return errs.Bad("home", a.Home, "an absolute path without colons and line ends")
	case a.UID <= 0 || a.GID <= 0:
		return errs.Bad("uid", fmt.Sprintf("%d:%d", a.UID, a.GID), "ids above 0: a workload never runs as root")
	}
	for _, g := range a.Groups {
		if g.ID <= 0 || bad(g.Name) {
			return errs.Bad("groups", fmt.Sprintf("%d(%s)", g.ID, g.Name), "groups with ids above 0, and names without colons and line ends")
		}
	}
	return nil
}

// writeAccounts makes the files by which programs in the workload find the name of its user. They are bound read-only,
// so they are no part of its changes. A file is replaced, not rewritten: a running container goes on with the one that
// it has.
func (b *Backend) writeAccounts(ctx context.Context, l spawner.Launch, image string) error {
	has, err := b.accountsOf(ctx, image)
	if err != nil {
		return err
	}
	a := l.Account
	user := fmt.Sprintf("%s:x:%d:%d::%s:%s", a.Login, a.UID, a.GID, a.Home, has.shell)
	groups := has.group
	for _, g := range slices.Backward(a.Groups) {
		groups = withLine(groups, fmt.Sprintf("%s:x:%d:%s", g.Name, g.ID, a.Login))
	}
	groups = withLine(groups, fmt.Sprintf("%s:x:%d:", a.Login, a.GID))
	for name, text := range map[string][]byte{passwdFile: withLine(has.passwd, user), groupFile: groups} {
		if err := replace(filepath.Join(l.Dir, name), text); err != nil {
			return fmt.Errorf("start %s: %w", l.ID, err)
		}
	}
	return nil
}

// withLine puts a line first into a file like /etc/passwd, and drops lines that give its id another name: so both the
// name and the id are found as the line has them.
func withLine(file []byte, line string) []byte {
	id := field(line, 2)
	out := []string{line}
	for old := range strings.Lines(string(file)) {
		old = strings.TrimRight(old, "\r\n")
		if old != "" && field(old, 2) != id {
			out = append(out, old)
		}
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

// field returns the n-th field of a line, empty when there is none.
func field(line string, n int) string {
	fields := strings.Split(line, ":")
	if n >= len(fields) {
		return ""
	}
	return fields[n]
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
func (b *Backend) accountsOf(ctx context.Context, image string) (accounts, error) {
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
func (b *Backend) probe(ctx context.Context, image string) (a accounts, err error) {
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
		Image: image, WorkingDir: "/", Entrypoint: []string{"/none"}, Labels: map[string]string{labelInstance: b.cfg.Instance, labelKind: kind, labelID: ""},
	}, HostConfig: &container.HostConfig{NetworkMode: "none"}})
	if err != nil {
		return b.explain(err, "make a container of image %s to look into it", image)
	}
	err = do(made.ID)
	whole, cancel = context.WithTimeout(context.WithoutCancel(ctx), hurry)
	defer cancel()
	if _, failed := b.client.ContainerRemove(whole, made.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); failed != nil {
		b.log.Warn("a container that was to look into an image stays until the next one", "container", made.ID, "error", failed)
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

func (b *Backend) read(ctx context.Context, container string) (a accounts, err error) {
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
		return nil, errs.New(errs.Invalid, "%s of the image is no ordinary file of at most %s bytes", h.Name, strconv.Itoa(mostOfFile))
	}
	var text bytes.Buffer
	if _, err := io.Copy(&text, t); err != nil {
		return nil, fmt.Errorf("read the engine's archive: %w", err)
	}
	return text.Bytes(), nil
}
