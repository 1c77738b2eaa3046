package mount

import (
	"os"
	"strings"
)

// mountLine is one mount of this process's namespace. The points that are made here have no character that the kernel would escape,
// but for what the administrator has put into the data directory's path.
type mountLine struct {
	id, parent    string
	point, source string
	group         string // its peer group; empty: it is not shared
}

var escaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountInfo is where the kernel tells of mounts.
const mountInfo = "/proc/self/mountinfo"

func mountLines() func(yield func(mountLine) bool) {
	info, _ := os.ReadFile(mountInfo)
	return parse(string(info))
}

func parse(info string) func(yield func(mountLine) bool) {
	return func(yield func(mountLine) bool) {
		for line := range strings.Lines(info) {
			front, back, _ := strings.Cut(line, " - ")
			f, b := strings.Fields(front), strings.Fields(back)
			if len(f) < 6 || len(b) < 2 {
				continue
			}
			one := mountLine{id: f[0], parent: f[1], point: escaped.Replace(f[4]), source: escaped.Replace(b[1])}
			for _, tag := range f[6:] {
				if group, ok := strings.CutPrefix(tag, "shared:"); ok {
					one.group = group
				}
			}
			if !yield(one) {
				return
			}
		}
	}
}

// sharing reports whether a directory is a mount that is shared, and whether its peer group is that of the mount on which it lies.
func sharing(dir string) (has, joined bool) {
	groups, at := map[string]string{}, mountLine{}
	for line := range mountLines() {
		groups[line.id] = line.group
		if line.point == dir {
			at = line
		}
	}
	return at.group != "", at.group != "" && at.group == groups[at.parent]
}

// table is what is mounted for sessions at one moment: by session and mount point the names, the topmost last.
type table map[string]map[string][]string

// table reads what is mounted. With a thousand sessions that is long: once in a round is enough where nothing has changed.
func (m *Mounter) table() table {
	info, _ := m.info()
	out := table{}
	for line := range parse(string(info)) {
		rest, below := strings.CutPrefix(line.point, m.cfg.Dir+"/")
		if !below {
			continue
		}
		id, _, _ := strings.Cut(rest, "/")
		if out[id] == nil {
			out[id] = map[string][]string{}
		}
		out[id][line.point] = append(out[id][line.point], line.source)
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
