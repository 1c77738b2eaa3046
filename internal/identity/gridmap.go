package identity

import (
	"strings"

	"slipway/internal/errs"
)

// gridmap is a grid-mapfile: lines `"DN" user[,user]`, read again when it has changed.
type gridmap struct {
	file *watched[map[string][]string]
}

func newGridmap(path string) (*gridmap, error) {
	g := &gridmap{watch(path, "identities.gridmap", parseGridmap)}
	_, err := g.file.now()
	return g, err
}

// users returns those whom a name of a certificate stands for.
func (g *gridmap) users(dn string) ([]string, error) {
	byDN, err := g.file.current()
	return byDN[modern(dn)], err
}

// parseGridmap reads a grid-mapfile. Lines for whole organisations (FQANs) and for pools of accounts (.name) are for
// others: here a user is a person.
func parseGridmap(path, text string) (map[string][]string, error) {
	byDN, n := map[string][]string{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		dn, users, ok := mapLine(line)
		if !ok {
			return nil, errs.New(errs.Invalid, "identities.gridmap: %s, line %d: %.80q", path, n, line).With(`a line is: "DN" user[,user]`)
		}
		for _, user := range users {
			if !strings.HasPrefix(user, ".") && !strings.Contains(dn, "*") {
				byDN[modern(dn)] = append(byDN[modern(dn)], user)
			}
		}
	}
	return byDN, nil
}

// mapLine reads one line.
func mapLine(line string) (dn string, users []string, ok bool) {
	rest := ""
	if line[0] != '"' {
		dn, rest, _ = strings.Cut(line, " ")
	} else {
		dn, rest, ok = strings.Cut(line[1:], `"`)
		if !ok {
			return "", nil, false
		}
	}
	for user := range strings.SplitSeq(strings.TrimSpace(rest), ",") {
		user = strings.TrimSpace(user)
		if check(user) != nil || strings.ContainsAny(user, " \t\"") {
			return "", nil, false
		}
		users = append(users, user)
	}
	return dn, users, strings.HasPrefix(dn, "/")
}

// modern writes the labels of old as they are written today: both are in use.
func modern(dn string) string {
	for _, old := range [][2]string{{"/Email=", "/emailAddress="}, {"/E=", "/emailAddress="}, {"/USERID=", "/UID="}} {
		dn = strings.ReplaceAll(dn, old[0], old[1])
	}
	return dn
}
