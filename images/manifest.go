package images

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// manifestFormat changes when equal sources no longer give equal images.
const manifestFormat = 1

// Manifest says what is in an environment. It lies inside the image, so it holds nothing that two freezes of equal trees
// do not share.
type Manifest struct {
	Format       int      `json:"format"`
	Base         Base     `json:"base"`
	Architecture string   `json:"architecture"`
	Entrypoint   []string `json:"entrypoint,omitempty"`
	Cmd          []string `json:"cmd,omitempty"`
	WorkingDir   string   `json:"workingDir,omitempty"`
	Files        int64    `json:"files"` // entries of the tree of any kind
	Bytes        int64    `json:"bytes"` // of its regular files, holes included

	Strip      []string `json:"strip"`                // rules; what they match is not in the image
	Mounts     []string `json:"mounts,omitempty"`     // mounted in the session, hence not in the image
	Skipped    []string `json:"skipped,omitempty"`    // sockets
	Added      []string `json:"added,omitempty"`      // made by the freeze, for Apptainer
	Unexported []string `json:"unexported,omitempty"` // variables of the base's Env that no shell can set or that a run sets itself
	Losses     Losses   `json:"losses"`

	Python []Package `json:"python,omitempty"`
}

// Losses counts what squashfs cannot hold.
type Losses struct {
	ACLs        int64 `json:"acls,omitempty"`        // POSIX ACLs
	Xattrs      int64 `json:"xattrs,omitempty"`      // of namespaces other than user, trusted and security, ACLs aside
	Nanoseconds int64 `json:"nanoseconds,omitempty"` // entries whose mtime is no whole second
}

// Package is a Python distribution found in the tree.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"` // directory that it is installed in
}

// inspector walks a merged tree for the parts of a manifest that come from it.
type inspector struct {
	ctx context.Context
	out *Manifest
}

// inspect fills the counts, losses and packages of m from the tree below root.
func inspect(ctx context.Context, root *os.File, m *Manifest) error {
	i := &inspector{ctx: ctx, out: m}
	dir, err := tree.OpenDir(tree.Under(root, ".")) // a directory's read position is shared by all who use the descriptor
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := i.dir(dir, ""); err != nil {
		return fmt.Errorf("inspect the tree: %w", err)
	}
	slices.SortFunc(m.Python, func(a, b Package) int {
		return strings.Compare(a.Name+"\x00"+a.Version+"\x00"+a.Path, b.Name+"\x00"+b.Version+"\x00"+b.Path)
	})
	return nil
}

func (i *inspector) dir(dir *os.File, rel string) error {
	if err := i.ctx.Err(); err != nil {
		return err
	}
	list, err := tree.Names(dir)
	if err != nil {
		return fmt.Errorf("list /%s: %w", rel, err)
	}
	for _, name := range list {
		st, err := tree.StatAt(dir, name)
		if err != nil {
			return err
		}
		if err := i.count(dir, name, &st); err != nil {
			return fmt.Errorf("/%s: %w", tree.Join(rel, name), err)
		}
		if tree.IsDir(&st) {
			if err := i.sub(dir, name, rel, st.Dev); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *inspector) sub(dir *os.File, name, rel string, dev uint64) error {
	sub, err := tree.Child(dir, name, dev)
	if err != nil {
		return err
	}
	defer sub.Close()
	if strings.HasSuffix(name, ".dist-info") && inSitePackages(rel) {
		i.python(sub, rel)
	}
	return i.dir(sub, tree.Join(rel, name))
}

func (i *inspector) count(dir *os.File, name string, st *unix.Stat_t) error {
	i.out.Files++
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		i.out.Bytes += st.Size
	}
	if st.Mtim.Nsec != 0 {
		i.out.Losses.Nanoseconds++
	}
	list, err := tree.XattrNames(tree.Under(dir, name))
	if err != nil {
		return err
	}
	for _, x := range list {
		namespace, _, _ := strings.Cut(x, ".")
		switch {
		case strings.HasPrefix(x, "system.posix_acl_"):
			i.out.Losses.ACLs++
		case namespace != "user" && namespace != "trusted" && namespace != "security":
			i.out.Losses.Xattrs++
		}
	}
	return nil
}

func inSitePackages(rel string) bool {
	last := rel[strings.LastIndex(rel, "/")+1:]
	return last == "site-packages" || last == "dist-packages"
}

// python notes the distribution whose dist-info directory is info. A package without readable metadata has no name to
// be listed by; its files are in the image all the same.
func (i *inspector) python(info *os.File, rel string) {
	fd, err := unix.Openat(int(info.Fd()), "METADATA", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "METADATA")
	defer f.Close()
	if st, err := tree.StatFile(f); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if name, version, ok := parseMetadata(io.LimitReader(f, 64<<10)); ok {
		i.out.Python = append(i.out.Python, Package{name, version, text("/" + rel)})
	}
}

// parseMetadata reads the name and version from the headers of a Python METADATA file.
func parseMetadata(r io.Reader) (name, version string, ok bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() && lines.Text() != "" {
		key, value, found := strings.Cut(lines.Text(), ":")
		if !found {
			continue
		}
		switch value = text(strings.TrimSpace(value)); {
		case strings.EqualFold(key, "Name") && name == "":
			name = value
		case strings.EqualFold(key, "Version") && version == "":
			version = value
		}
	}
	return name, version, name != "" && version != ""
}

// text makes a name that is not UTF-8 fit for JSON without making two names one.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return fmt.Sprintf("%+q", s)
}

func texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	slices.Sort(out)
	return out
}
