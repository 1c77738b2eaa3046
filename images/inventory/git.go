package inventory

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"

	"slipway/images/squashfs"
)

// maxHash bounds what of a checkout is hashed to tell whether it was changed.
const maxHash = 256 << 20

var objectName = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// checkout tells of the working tree that a .git belongs to.
func (l *looker) checkout(ctx context.Context, at place) {
	c := Checkout{Path: text(path.Dir(at.path)), State: Unknown}
	dir := l.gitDir(ctx, at)
	common := l.commonDir(ctx, dir)
	head := l.small(ctx, dir+"/HEAD")
	if dir == "" || head == "" {
		return // a .git without a HEAD is no repository
	}
	name, symbolic := strings.CutPrefix(head, "ref: ")
	if symbolic {
		c.Branch = word(strings.TrimPrefix(name, "refs/heads/"))
		c.Commit = first(l.ref(ctx, dir, name), l.ref(ctx, common, name))
	} else if objectName.MatchString(head) {
		c.Commit = head
	}
	conf := parseGitConfig([]byte(l.text(ctx, common+"/config")))
	c.Remote = cleanURL(conf.remote)
	work := checkoutState{l: l, root: path.Dir(at.path), dir: dir, common: common, conf: conf, commit: c.Commit}
	work.tell(ctx, &c)
	l.out.Git = append(l.out.Git, c)
}

// gitDir returns the directory that a .git is or, as in submodules, points to; "" when that is not in the tree.
func (l *looker) gitDir(ctx context.Context, at place) string {
	if at.node.Kind == squashfs.Dir {
		return at.path
	}
	to, ok := strings.CutPrefix(l.small(ctx, at.path), "gitdir: ")
	if !ok {
		return ""
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(at.path), to)
	}
	return path.Clean(to)
}

// commonDir returns the directory of the objects, references and configuration: another than dir in a further working
// tree.
func (l *looker) commonDir(ctx context.Context, dir string) string {
	common := l.small(ctx, dir+"/commondir")
	switch {
	case common == "":
		return dir
	case path.IsAbs(common):
		return path.Clean(common)
	}
	return path.Join(dir, common)
}

// text returns the beginning of a file, "" when it cannot be read.
func (l *looker) text(ctx context.Context, name string) string {
	b, err := l.read(ctx, place{name, l.tree.lookup(name)}, 1<<20)
	if err != nil {
		return ""
	}
	return string(b)
}

// small returns a short file's one line.
func (l *looker) small(ctx context.Context, name string) string {
	b, err := l.read(ctx, place{name, l.tree.lookup(name)}, 4096)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ref returns the object that a reference names.
func (l *looker) ref(ctx context.Context, dir, name string) string {
	if !strings.HasPrefix(name, "refs/") || strings.Contains(name, "..") {
		return ""
	}
	if id := l.small(ctx, dir+"/"+name); objectName.MatchString(id) {
		return id
	}
	return packedRef([]byte(l.text(ctx, dir+"/packed-refs")), name)
}

func packedRef(b []byte, name string) string {
	for raw := range bytes.Lines(b) {
		id, ref, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
		if ref == name && objectName.MatchString(id) {
			return id
		}
	}
	return ""
}

// gitConfig is what matters of a repository's configuration.
type gitConfig struct {
	remote   string // URL of origin, else of the first remote
	noModes  bool   // core.filemode = false
	filtered string // the setting by which files differ from objects, "" when there is none
}

// parseGitConfig reads a configuration without its includes.
func parseGitConfig(b []byte) gitConfig {
	var c gitConfig
	section := ""
	for raw := range bytes.Lines(b) {
		l := strings.TrimSpace(string(raw))
		if strings.HasPrefix(l, "[") {
			section, _, _ = strings.Cut(l[1:], "]")
			continue
		}
		key, value, _ := strings.Cut(l, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)
		switch name := strings.ToLower(section); {
		case strings.HasPrefix(name, "remote ") && key == "url":
			if c.remote == "" || section == `remote "origin"` {
				c.remote = value
			}
		case name == "core" && key == "filemode":
			c.noModes = strings.EqualFold(value, "false")
		case name == "core" && key == "autocrlf" && !strings.EqualFold(value, "false"):
			c.filtered = "core.autocrlf is set"
		case name == "extensions" && key == "objectformat" && value != "sha1":
			c.filtered = "its objects are not named by SHA-1"
		}
	}
	return c
}

// checkoutState tells whether tracked files are those of the commit.
type checkoutState struct {
	l      *looker
	root   string // of the working tree
	dir    string // of the repository
	common string // of what it shares with other working trees
	conf   gitConfig
	commit string
	hashed int64
}

// tell fills the state of c: modified is certain, and so is clean; whatever stands in the way of both is unknown, with
// the reason.
func (s *checkoutState) tell(ctx context.Context, c *Checkout) {
	at := s.dir + "/index"
	node := s.l.tree.lookup(at)
	if node == nil {
		c.Why = "it has no index"
		return
	}
	b, err := s.l.whole(ctx, place{at, node})
	if err != nil {
		c.Why = "its index: " + err.Error()
		return
	}
	x, err := parseGitIndex(b)
	if err != nil {
		c.Why = "its index: " + err.Error()
		return
	}
	unsure := s.conf.filtered
	tracked := make(map[string]bool, len(x.entries))
	for _, e := range x.entries {
		if tracked[e.path] {
			continue // another side of a conflict
		}
		tracked[e.path] = true
		same, why := s.same(ctx, e, node.MTime)
		switch {
		case why != "":
			unsure = first(unsure, why)
		case !same:
			c.Modified++
		}
	}
	c.Others = s.others(tracked)
	staged, why := s.staged(ctx, x)
	switch unsure = first(unsure, why); {
	case staged || c.Modified > 0 && s.conf.filtered == "":
		c.State = Modified
	case unsure != "":
		c.Why = unsure
	default:
		c.State = Clean
	}
}

// same reports whether a file is the one that the index has. Equal size and time are enough where git itself is content
// with them: when the file is older than the index.
func (s *checkoutState) same(ctx context.Context, e indexEntry, indexTime uint32) (same bool, why string) {
	if e.skip || e.mode == modeGitlink {
		return true, ""
	}
	n := s.l.tree.lookup(s.root + "/" + e.path)
	switch {
	case n == nil || e.added:
		return false, ""
	case e.mode == modeSymlink:
		return n.Kind == squashfs.Symlink && blobID([]byte(n.Target)) == e.id, ""
	case n.Kind != squashfs.File || !s.conf.noModes && e.mode&0o100 != uint32(n.Mode)&0o100:
		return false, ""
	case e.size != uint32(size(n)) && e.size != 0: // git notes no size of what it is not sure of
		return false, ""
	case e.size == uint32(size(n)) && e.mtime == n.MTime && e.mtime < indexTime:
		return true, ""
	}
	return s.content(ctx, n, e)
}

func (s *checkoutState) content(ctx context.Context, n *squashfs.Node, e indexEntry) (same bool, why string) {
	if s.hashed += size(n); s.hashed > maxHash {
		return false, "more has a new time than is worth hashing"
	}
	b, err := s.l.whole(ctx, place{e.path, n})
	if err != nil {
		return false, "a file could not be read"
	}
	if blobID(b) == e.id {
		return true, ""
	}
	if s.l.tree.lookup(s.root+"/.gitattributes") != nil {
		return false, "its .gitattributes may make files differ from objects"
	}
	return false, ""
}

// blobID returns the name that git has for a content.
func blobID(b []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// others counts the files that are not tracked. What other repositories lie within are theirs.
func (s *checkoutState) others(tracked map[string]bool) int {
	count := 0
	var walk func(at string, n *squashfs.Node)
	walk = func(at string, n *squashfs.Node) {
		for _, e := range n.Children {
			name := at + e.Name
			switch {
			case e.Name == ".git":
			case e.Node.Kind != squashfs.Dir:
				if !tracked[name] {
					count++
				}
			case e.Node.Child(".git") == nil:
				walk(name+"/", e.Node)
			}
		}
	}
	if n := s.l.tree.lookup(s.root); n != nil {
		walk("", n)
	}
	return count
}

// staged reports whether the index holds other than the commit: it remembers the tree that it was last equal to.
func (s *checkoutState) staged(ctx context.Context, x gitIndex) (staged bool, why string) {
	if x.tree == "" {
		return false, "its index does not say which tree it is"
	}
	tree, err := s.l.treeOfCommit(ctx, s.common, s.commit)
	if err != nil {
		return false, err.Error()
	}
	return tree != x.tree, ""
}
