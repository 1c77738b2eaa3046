package identity

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"slipway/internal/errs"
)

// Table is a file of the site's with users' numbers. A line is `user uid gid[,group...]`: the user as Principal has her, in quotes
// where her name has a space; a further group is a number, or number=name. What begins with # is a comment. The file is read again when it
// has changed. It is safe for concurrent use.
type Table struct {
	watched
	lines map[string]Numbers // guarded by watched.mu
}

// NewTable reads the table, and says what is wrong with it.
func NewTable(path string) (*Table, error) {
	t := &Table{watched: watched{path: path, field: "users.table"}}
	return t, t.fresh(t.take)
}

// Account gives the numbers of a user.
func (t *Table) Account(_ context.Context, name string) (Numbers, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.fresh(t.take); err != nil {
		return Numbers{}, err
	}
	n, ok := t.lines[name]
	if !ok {
		return n, errs.New(errs.Missing, "account: the site's table of accounts has no line for %.80q", name).
			With("the administrator adds it to users.table, or says under identities.accounts which account is meant")
	}
	return n, nil
}

func (t *Table) take(text string) (err error) {
	t.lines, err = parseTable(t.path, text)
	return err
}

// Len gives how many users the table has.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}

func parseTable(path, text string) (map[string]Numbers, error) {
	lines, owners, n := map[string]Numbers{}, map[int]string{}, 0
	for line := range strings.Lines(text) {
		n++
		user, numbers, err := parseLine(strings.TrimSpace(line))
		if err == nil && user == "" {
			continue
		}
		if _, twice := lines[user]; err == nil && twice {
			err = errs.Bad("user", user, "one line for each user")
		}
		if first := owners[numbers.UID]; err == nil && first != "" {
			err = errs.Bad("uid", numbers.UID, fmt.Sprintf("a number that nobody else has: %q has it already", first))
		}
		if err != nil {
			return nil, errs.New(errs.Invalid, "users.table: %s, line %d: %s", path, n, errs.Brief(err)).With("a line is: user uid gid[,group...]. " + remedyOf(err))
		}
		lines[user], owners[numbers.UID] = numbers, user
	}
	return lines, nil
}

func parseLine(line string) (user string, n Numbers, err error) {
	if line == "" || line[0] == '#' {
		return "", n, nil
	}
	if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
		user, _ = strconv.Unquote(quoted)
		line = "q " + line[len(quoted):]
	}
	words := strings.Fields(line)
	if len(words) != 3 {
		return "", n, errs.Bad("line", fmt.Sprintf("%d words", len(words)), "three of them; where homes are, users.home says")
	}
	if user == "" {
		user = words[0]
	}
	if err := check(user); err != nil {
		return "", n, err
	}
	if n.UID, err = Number("uid", words[1]); err != nil {
		return "", n, err
	}
	groups := strings.Split(words[2], ",")
	if n.GID, err = Number("gid", groups[0]); err != nil {
		return "", n, err
	}
	for _, word := range groups[1:] {
		number, name, _ := strings.Cut(word, "=")
		g := Group{Name: name}
		if g.ID, err = Number("groups", number); err != nil {
			return "", n, err
		}
		n.Groups = append(n.Groups, g)
	}
	n.Login = UserOf(user)
	_, err = n.check()
	return user, n, err
}

// remedyOf gives what to do about an error.
func remedyOf(err error) string {
	if e, ok := err.(*errs.Error); ok {
		return e.Remedy
	}
	return ""
}

// watched is a file that is read again when it has changed.
type watched struct {
	path, field string

	mu   sync.Mutex // guards all below
	seen fs.FileInfo
	err  error // why what was last read cannot be used
}

// mostFile bounds what is read.
const mostFile = 64 << 20

// fresh has take read the file where it is another one than before. A file that others could write is not believed. The caller has mu, or
// is alone.
func (w *watched) fresh(take func(text string) error) error {
	info, err := os.Stat(w.path)
	if err != nil {
		w.seen = nil
		return errs.New(errs.Unavailable, "%s: %w", w.field, err).With("the administrator puts the file back")
	}
	if w.seen != nil && os.SameFile(w.seen, info) && w.seen.ModTime().Equal(info.ModTime()) && w.seen.Size() == info.Size() {
		return w.err
	}
	w.seen, w.err = info, w.read(info, take)
	return w.err
}

func (w *watched) read(info fs.FileInfo, take func(text string) error) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || info.Size() > mostFile:
		return errs.Bad(w.field, w.path, "a file of at most 64 MiB")
	case info.Mode().Perm()&0o022 != 0 || !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return errs.New(errs.Invalid, "%s: %s can be written by others than root", w.field, w.path).With("chown root " + w.path + "; chmod go-w " + w.path)
	}
	text, err := os.ReadFile(w.path)
	if err != nil {
		return errs.New(errs.Unavailable, "%s: %w", w.field, err)
	}
	return take(string(text))
}
