// Package accounts makes the tables of users and groups (/etc/passwd and /etc/group) that a workload sees, so that
// programs in it find the name and the home of its user.
//
// Promises: the account's own lines come first, and no other line of a table has its id, so that both the name and the
// id are found as the account has them. It reads and writes no files.
package accounts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Check refuses what is not fit for a line of a table.
func Check(a spawner.Account) error {
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
			return errs.Bad(
				"groups", fmt.Sprintf("%d(%s)", g.ID, g.Name),
				"groups with ids above 0, and names without colons and line ends",
			)
		}
	}
	return nil
}

// OfImage returns an image's tables with the account in them.
func OfImage(a spawner.Account, users, groups []byte, shell string) (withUser, withGroups []byte) {
	for _, g := range slices.Backward(a.Groups) {
		groups = withLine(groups, fmt.Sprintf("%s:x:%d:%s", g.Name, g.ID, a.Login))
	}
	groups = withLine(groups, fmt.Sprintf("%s:x:%d:", a.Login, a.GID))
	return withLine(users, fmt.Sprintf("%s:x:%d:%d::%s:%s", a.Login, a.UID, a.GID, a.Home, shell)), groups
}

// withLine puts a line first into a table, and drops lines that give its id another name.
func withLine(table []byte, line string) []byte {
	id := field(line, 2)
	out := []string{line}
	for old := range strings.Lines(string(table)) {
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

// UsersOfHost returns the host's table of users with the account in it, in place of any other of that name or id:
// Apptainer runs for known users only, and tells the container what it finds there.
func UsersOfHost(a spawner.Account, users []byte) []byte {
	line := fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", a.Login, a.UID, a.GID, a.Home)
	return append([]byte(line), without(users, a.Login, a.UID)...)
}

// GroupsOfHost returns the host's table of groups, with a line for each further group of the account's, and one for its
// first if there was none of that id.
func GroupsOfHost(a spawner.Account, groups []byte) []byte {
	for _, g := range a.Groups {
		groups = append(fmt.Appendf(nil, "%s:x:%d:%s\n", g.Name, g.ID, a.Login), without(groups, g.Name, g.ID)...)
	}
	if len(without(groups, "", a.GID)) != len(without(groups, "", -1)) {
		return groups
	}
	return append(fmt.Appendf(nil, "%s:x:%d:\n", a.Login, a.GID), without(groups, a.Login, -1)...)
}

// without leaves out the lines of a name or id, and those that have no id.
func without(table []byte, name string, id int) []byte {
	var kept []byte
	for line := range strings.Lines(string(table)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 3 || f[0] == name || f[2] == strconv.Itoa(id) {
			continue
		}
		kept = append(kept, strings.TrimSuffix(line, "\n")+"\n"...)
	}
	return kept
}
