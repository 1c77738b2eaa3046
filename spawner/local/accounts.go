package local

import (
	"fmt"
	"strconv"
	"strings"

	"slipway/spawner"
)

// passwd returns the host's table of users with the account's line in it, first and in place of any other of that name
// or id: Apptainer runs for known users only, and tells the container what it finds there.
func passwd(host []byte, a spawner.Account) []byte {
	line := fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", a.Login, a.UID, a.GID, a.Home)
	return append([]byte(line), without(host, a.Login, a.UID)...)
}

// groups returns the host's table of groups, with a line for each further group of the account's, and one for its first
// if there was none of that id.
func groups(host []byte, a spawner.Account) []byte {
	for _, g := range a.Groups {
		host = append(fmt.Appendf(nil, "%s:x:%d:%s\n", g.Name, g.ID, a.Login), without(host, g.Name, g.ID)...)
	}
	if len(without(host, "", a.GID)) != len(without(host, "", -1)) {
		return host
	}
	return append(fmt.Appendf(nil, "%s:x:%d:\n", a.Login, a.GID), without(host, a.Login, -1)...)
}

// without leaves out the lines of a name or id, both tables having the name first and the id third.
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
