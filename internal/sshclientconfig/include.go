package sshclientconfig

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// mark is the line before the Include line that is ours; both go together.
const mark = "# slipway: `slipway ssh logout` takes out this line and the next"

// include is an Include line, for one user's ssh configuration. All paths have forward slashes.
type include struct {
	home, dir string // the user's home, and her .ssh, from which relative names count
	target    string // the file that is to be included
	word      string // how the line names it
	windows   bool
}

// line is the Include line.
func (i include) line() string { return "Include " + quoted(i.word) }

// add puts the line before the first one of text. It gives text itself where that includes the target already.
func (i include) add(text []byte) []byte {
	if i.covered(text) {
		return text
	}
	bom, rest := cutBOM(text)
	end := lineEnd(rest)
	return bytes.Join([][]byte{bom, []byte(mark + end + i.line() + end), rest}, nil)
}

// remove takes out what add has put in.
func (i include) remove(text []byte) []byte {
	bom, rest := cutBOM(text)
	lines := bytes.SplitAfter(rest, []byte("\n"))
	for n := range len(lines) - 1 {
		if chomp(lines[n]) == mark && chomp(lines[n+1]) == i.line() {
			return bytes.Join(slices.Concat([][]byte{bom}, lines[:n], lines[n+2:]), nil)
		}
	}
	return text
}

func chomp(line []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
}

// covered reports whether text includes the target for all hosts, before anything that would overrule it: ssh takes the
// first value that it finds. A later Include does not count; then the target is included twice, which harms nothing.
func (i include) covered(text []byte) bool {
	_, rest := cutBOM(text)
	for line := range strings.Lines(string(rest)) {
		keyword, arguments := words(line)
		if keyword == "include" {
			for _, a := range arguments {
				if i.covers(a) {
					return true
				}
			}
		} else if overrules(keyword) {
			return false
		}
	}
	return false
}

// overrules tells the keywords after which an Include comes too late for all hosts.
func overrules(keyword string) bool {
	switch keyword {
	case "host", "match", "hostname", "port", "user", "identityfile", "certificatefile", "identitiesonly", "userknownhostsfile",
		"serveraliveinterval", "serveralivecountmax", "connecttimeout":
		return true
	}
	return false
}

// covers reports whether an Include of pattern takes in the target, as glob(3) has it.
func (i include) covers(pattern string) bool {
	target := i.target
	if i.windows {
		pattern, target = strings.ToLower(slashes(pattern)), strings.ToLower(target)
	}
	switch {
	case strings.ContainsAny(pattern, "%$"):
		return false // expanded by some versions of ssh alone
	case strings.HasPrefix(pattern, "~/"):
		pattern = i.home + pattern[1:]
	case !absolute(pattern, i.windows):
		pattern = i.dir + "/" + pattern
	}
	if i.windows {
		pattern = strings.ToLower(pattern)
	}
	names, globs := strings.Split(target, "/"), strings.Split(strings.ReplaceAll(pattern, "[!", "[^"), "/")
	if len(names) != len(globs) {
		return false
	}
	for n, name := range names {
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(globs[n], ".") {
			return false // a wildcard leaves hidden files out
		}
		if ok, err := path.Match(globs[n], name); !ok || err != nil {
			return false
		}
	}
	return true
}

func absolute(p string, windows bool) bool {
	return strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || windows && len(p) > 1 && p[1] == ':'
}

// words takes a line of the configuration apart: the keyword in lower case and its arguments. A line that ssh would
// refuse has none.
func words(line string) (keyword string, arguments []string) {
	line = strings.Trim(line, " \t\r\n\f")
	end := strings.IndexAny(line, " \t=")
	if end < 0 || line[0] == '#' {
		return strings.ToLower(line), nil
	}
	keyword, line = strings.ToLower(line[:end]), strings.TrimLeft(line[end:], " \t")
	line = strings.TrimLeft(strings.TrimPrefix(line, "="), " \t")
	for line != "" && line[0] != '#' {
		var a string
		if line[0] == '"' || line[0] == '\'' {
			to := strings.IndexByte(line[1:], line[0])
			if to < 0 {
				return keyword, nil
			}
			a, line = line[1:to+1], line[to+2:]
		} else {
			to := strings.IndexAny(line+" ", " \t")
			a, line = line[:to], line[to:]
		}
		arguments, line = append(arguments, a), strings.TrimLeft(line, " \t")
	}
	return keyword, arguments
}

// quoted puts a path with blanks into quotes.
func quoted(p string) string {
	if strings.ContainsAny(p, " \t'#") {
		return `"` + p + `"`
	}
	return p
}

// cutBOM parts the mark that some editors put before a text from the text.
func cutBOM(text []byte) (bom, rest []byte) {
	if rest, ok := bytes.CutPrefix(text, []byte("\xef\xbb\xbf")); ok {
		return text[:3], rest
	}
	return nil, text
}

// lineEnd returns how the first line of text ends.
func lineEnd(text []byte) string {
	if first, _, ok := bytes.Cut(text, []byte("\n")); ok && bytes.HasSuffix(first, []byte("\r")) {
		return "\r\n"
	}
	return "\n"
}
