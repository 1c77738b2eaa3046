package mount

import (
	"iter"
	"os"
	"strings"

	"slipway/internal/mounts"
)

// mountInfo is where the kernel tells of mounts.
const mountInfo = "/proc/self/mountinfo"

// mountTable returns what is mounted in this process's namespace.
func mountTable() iter.Seq[mounts.Mount] {
	info, _ := os.ReadFile(mountInfo)
	return mounts.Mounts(string(info))
}

// sharing reports whether a directory is a mount that is shared, and whether its peer group is that of the mount on
// which it lies.
func sharing(dir string) (has, joined bool) {
	groups, at := map[string]string{}, mounts.Mount{}
	for one := range mountTable() {
		groups[one.ID] = one.Group
		if one.Point == dir {
			at = one
		}
	}
	return at.Group != "", at.Group != "" && at.Group == groups[at.Parent]
}

// table is what is mounted for sessions at one moment: by session and mount point the names, the topmost last.
type table map[string]map[string][]string

// table reads what is mounted. With a thousand sessions that is long: once in a round is enough where nothing has
// changed.
func (m *Mounter) table() table {
	info, _ := m.info()
	out := table{}
	for one := range mounts.Mounts(string(info)) {
		rest, below := strings.CutPrefix(one.Point, m.cfg.Dir+"/")
		if !below {
			continue
		}
		id, _, _ := strings.Cut(rest, "/")
		if out[id] == nil {
			out[id] = map[string][]string{}
		}
		out[id][one.Point] = append(out[id][one.Point], one.Source)
	}
	return out
}

// shows reports whether nothing but what has this name is mounted for a session at a point.
func (t table) shows(id, point, name string) bool {
	has := t[id][point]
	return len(has) == 1 && has[0] == name
}

// mounted returns what is mounted for a session now.
func (m *Mounter) mounted(id string) map[string][]string { return m.table()[id] }

// left returns the sessions other than those here for which something is mounted, or credentials lie about.
func (m *Mounter) left(t table, here map[string]bool) []string {
	found := map[string]bool{}
	for id := range t {
		found[id] = true
	}
	entries, _ := os.ReadDir(m.cfg.RunDir)
	for _, e := range entries {
		found[e.Name()] = true
	}
	var out []string
	for id := range found {
		if !here[id] {
			out = append(out, id)
		}
	}
	return out
}
