package identity

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"slipway/internal/errs"
)

// Table is a file of the site's with users' numbers. A line is `user uid gid[,group...]`: the user as Principal has
// her, in quotes where her name has a space; a further group is a number, or number=name. What begins with # is a
// comment. The file is read again when it has changed. It is safe for concurrent use.
type Table struct {
	file *watched[map[string]Numbers]
}

// NewTable reads the table, and says what is wrong with it.
func NewTable(path string) (*Table, error) {
	t := &Table{watch(path, "users.table", parseTable)}
	_, err := t.file.now()
	return t, err
}

// Account returns the numbers of a user.
func (t *Table) Account(_ context.Context, name string) (Numbers, error) {
	lines, err := t.file.current()
	if err != nil {
		return Numbers{}, err
	}
	n, ok := lines[name]
	if !ok {
		return n, errs.New(errs.Missing, "account: the site's table of accounts has no line for %.80q", name).
			With("the administrator adds it to users.table, or says under identities.accounts which account is meant")
	}
	return n, nil
}

// Len returns how many users the table has.
func (t *Table) Len() int {
	lines, _ := t.file.now()
	return len(lines)
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
			return nil, errs.New(errs.Invalid, "users.table: %s, line %d: %s", path, n, errs.Brief(err)).
				With("a line is: user uid gid[,group...]. " + remedyOf(err))
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
		return "", n, errs.Bad(
			"line", fmt.Sprintf("%d words", len(words)), "three of them; where homes are, users.home says",
		)
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

// remedyOf returns what to do about an error.
func remedyOf(err error) string {
	if e, ok := err.(*errs.Error); ok {
		return e.Remedy
	}
	return ""
}
