package secretscan

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// Tree reads the tree that is to be frozen. Neither method follows links.
type Tree interface {
	// Open opens a regular file; the error is fs.ErrNotExist when there is none of that name.
	Open(path string) (io.ReadCloser, error)
	// Names lists a directory; nothing when there is none.
	Names(dir string) []string
}

// maxList bounds a package's list of files: the longest known has 9 MB.
const maxList = 64 << 20

// resolver looks suspects up in packages' lists. Each list is read at most once, and only where one may name a suspect.
type resolver struct {
	tree  Tree
	files map[string]suspect
}

// dropPublished removes the files that a package published as they are.
func dropPublished(ctx context.Context, files map[string]suspect, tree Tree) error {
	if len(files) == 0 {
		return nil
	}
	r := resolver{tree, files}
	for _, look := range []func(ctx context.Context) error{r.pip, r.conda, r.dpkg} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for the name and content of every list: those of dir's entries that match pattern. A list that cannot
// be read vouches for nothing.
func (r resolver) each(ctx context.Context, dir, pattern, below string, fn func(list []byte)) error {
	for _, name := range r.tree.Names(dir) {
		if ok, err := path.Match(pattern, name); err != nil || !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(r.files) == 0 {
			return nil
		}
		if list, ok := r.read(path.Join(dir, name, below)); ok {
			fn(list)
		}
	}
	return nil
}

func (r resolver) read(name string) ([]byte, bool) {
	f, err := r.tree.Open(name)
	if err != nil {
		return nil, false
	}
	list, err := io.ReadAll(io.LimitReader(f, maxList))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return list, err == nil
}

// drop removes the suspects for which a list vouches.
func (r resolver) drop(vouches func(p string, s suspect) bool) {
	maps.DeleteFunc(r.files, vouches)
}

// pip reads RECORD (PyPA, "Recording installed projects"): a path from site-packages, sha256 in base64url, a size.
func (r resolver) pip(ctx context.Context) error {
	for _, site := range r.sites() {
		err := r.each(ctx, site, "*.dist-info", "RECORD", func(list []byte) {
			r.drop(func(p string, s suspect) bool { return inRecord(list, relative(site, p), s) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sites returns the directories whose packages may have installed a suspect: those above it, and those of the prefixes
// above it.
func (r resolver) sites() []string {
	found := map[string]bool{}
	for p := range r.files {
		for dir := range above(p) {
			if base := path.Base(dir); base == "site-packages" || base == "dist-packages" {
				found[dir] = true
			}
			for _, python := range r.tree.Names(path.Join(dir, "lib")) {
				if strings.HasPrefix(python, "python3") {
					found[path.Join(dir, "lib", python, "site-packages")] = true
					found[path.Join(dir, "lib", python, "dist-packages")] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// above returns the directories above p, the nearest first.
func above(p string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for dir := path.Dir(p); ; dir = path.Dir(dir) {
			if !yield(dir) || dir == "/" {
				return
			}
		}
	}
}

// relative returns p as seen from dir: both are clean and absolute.
func relative(dir, p string) string {
	up := ""
	for dir != "/" && !strings.HasPrefix(p, dir+"/") {
		dir, up = path.Dir(dir), up+"../"
	}
	return up + strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
}

func inRecord(list []byte, name string, s suspect) bool {
	if strings.ContainsAny(name, "\",\n") {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return hasLine(list, name+",sha256="+base64.RawURLEncoding.EncodeToString(s.sha256[:]), ",")
}

// hasLine says whether a line of list is text, or goes on behind it with one of ends.
func hasLine(list []byte, text, ends string) bool {
	for {
		i := bytes.Index(list, []byte(text))
		if i < 0 {
			return false
		}
		end := i + len(text)
		begins := i == 0 || list[i-1] == '\n'
		if begins && (end == len(list) || strings.IndexByte(ends+"\r\n", list[end]) >= 0) {
			return true
		}
		list = list[i+1:]
	}
}

// dpkg reads the packages' md5sums (deb-md5sums(5)): a sum, two spaces, a path from the root. What a package of before
// the merge of /usr lists below /lib is below /usr/lib now.
func (r resolver) dpkg(ctx context.Context) error {
	return r.each(ctx, "/var/lib/dpkg/info", "*.md5sums", "", func(list []byte) {
		r.drop(func(p string, s suspect) bool {
			sum := hex.EncodeToString(s.md5[:]) + "  "
			unmerged := strings.TrimPrefix(p[1:], "usr/")
			return hasLine(list, sum+p[1:], "") || hasLine(list, sum+unmerged, "")
		})
	})
}

// condaPaths is what conda lists of a package: conda-meta/NAME.json of an environment, info/paths.json of an unpacked
// package.
type condaPaths struct {
	Data struct {
		Paths []condaPath `json:"paths"`
	} `json:"paths_data"`
	Paths []condaPath `json:"paths"`
}

// condaPath has two sums where conda wrote the environment's path into the file.
type condaPath struct {
	Path     string `json:"_path"`
	SHA256   string `json:"sha256"`
	InPrefix string `json:"sha256_in_prefix"`
}

// conda reads the lists of the environments and unpacked packages that suspects lie in (conda-build, "Package
// metadata").
func (r resolver) conda(ctx context.Context) error {
	prefixes := map[string]bool{}
	for p := range r.files {
		for dir := range above(p) {
			prefixes[dir] = true
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		vouch := func(list []byte) { r.dropConda(prefix, list) }
		if err := r.each(ctx, path.Join(prefix, "conda-meta"), "*.json", "", vouch); err != nil {
			return err
		}
		if err := r.each(ctx, path.Join(prefix, "info"), "paths.json", "", vouch); err != nil {
			return err
		}
	}
	return nil
}

func (r resolver) dropConda(prefix string, list []byte) {
	var read condaPaths
	tried := false
	r.drop(func(p string, s suspect) bool {
		rel, below := strings.CutPrefix(p, strings.TrimSuffix(prefix, "/")+"/")
		if !below || !bytes.Contains(list, []byte(path.Base(rel))) {
			return false
		}
		if !tried {
			tried = true
			if json.Unmarshal(list, &read) != nil {
				read = condaPaths{}
			}
		}
		return read.has(rel, hex.EncodeToString(s.sha256[:]))
	})
}

func (c condaPaths) has(rel, sum string) bool {
	match := func(p condaPath) bool { return p.Path == rel && (p.SHA256 == sum || p.InPrefix == sum) }
	return slices.ContainsFunc(c.Data.Paths, match) || slices.ContainsFunc(c.Paths, match)
}
