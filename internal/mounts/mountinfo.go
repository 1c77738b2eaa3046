package mounts

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Mount is a line of a mountinfo file, with the kernel's escapes undone.
type Mount struct {
	ID, Parent string
	Device     string // major:minor
	Point      string
	Group      string   // the peer group that it tells of new mounts below it; empty: it is not shared
	Master     string   // the peer group that tells it; empty: none does
	Type       string   // of the file system
	Source     string   // where the file system comes from, as it says itself
	Options    []string // of the file system, not of the mount
}

// Mounts returns the mounts in the text of a mountinfo file, in its order: of several at one place the last is on top.
// A line that is not of the kernel's form is passed over: one bad line must not hide the others.
func Mounts(mountinfo string) iter.Seq[Mount] {
	return func(yield func(Mount) bool) {
		for line := range strings.Lines(mountinfo) {
			if m, ok := parseMount(line); ok && !yield(m) {
				return
			}
		}
	}
}

// parseMount reads a line. There are any number of tags before the dash, and a source may be empty:
//
//	36 35 98:0 /root /point rw,noatime shared:2 master:1 - overlay source rw,lowerdir=/a:/b,upperdir=/c,workdir=/d
func parseMount(line string) (Mount, bool) {
	const tags = 6 // where they begin
	fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(fields) < tags {
		return Mount{}, false
	}
	dash := slices.Index(fields[tags:], "-")
	if dash < 0 || len(fields) < tags+dash+4 {
		return Mount{}, false
	}
	fs := fields[tags+dash+1:]
	m := Mount{
		ID: fields[0], Parent: fields[1], Device: fields[2], Point: unescape(fields[4]), Type: fs[0],
		Source: unescape(fs[1]),
	}
	for _, tag := range fields[tags : tags+dash] {
		switch name, group, _ := strings.Cut(tag, ":"); name {
		case "shared":
			m.Group = group
		case "master":
			m.Master = group
		}
	}
	for option := range strings.SplitSeq(fs[2], ",") {
		m.Options = append(m.Options, unescape(option))
	}
	return m, true
}

// unescape undoes the kernel's way of writing blanks and their like in octal: \040 is a blank, \043 a number sign.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
