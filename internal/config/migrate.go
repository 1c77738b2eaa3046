package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"slipway/internal/errs"
)

// Change is one that Migrate has made.
type Change struct {
	Line int // in the text as it was
	What string
}

// Migrate rewrites a configuration of an earlier version, and returns what it has changed. All else stays to the letter:
// the order, the comments and the layout. A text without old keys comes back as it is. One that has other mistakes is
// refused; from is what errors call the place where it was found.
func Migrate(text []byte, from string) ([]byte, []Change, error) {
	var c Config
	if wrong := decode(text, &c, exampleHelp, true); len(wrong) > 0 {
		return nil, nil, located(wrong, from)
	}
	// A new name leaves each line where it is, so the second round tells the lines of the text as it was.
	renamed, changes, err := rewrite(string(text), func(w *rewriting, e entry, r renaming) {
		if r.stays() {
			w.rename(e, r)
		}
	})
	if err != nil {
		return nil, nil, located([]error{err}, from)
	}
	migrated, more, err := rewrite(renamed, func(w *rewriting, e entry, r renaming) {
		if !r.stays() {
			w.takeOut(e, r)
		}
	})
	if err != nil {
		return nil, nil, located([]error{err}, from)
	}
	if wrong := decode([]byte(migrated), &c, exampleHelp, false); len(wrong) > 0 {
		return nil, nil, located(wrong, from+", migrated")
	}
	changes = append(changes, more...)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Line, b.Line) })
	return []byte(migrated), changes, nil
}

// rewriting is a text that is being rewritten: the edits are made when all are known, at places of the text as it was.
type rewriting struct {
	text    string
	lines   []int // where each begins
	edits   []edit
	moved   []string // entries for the end
	changes []Change
	err     error
}

type edit struct {
	from, to int
	text     string
	last     bool // it takes out the last entry of a mapping in braces: a comma before it goes with it
}

// entry is a key and its value.
type entry struct {
	key, value *yaml.Node
	next       *yaml.Node // the key below it in its mapping; nil: it is the last
	flow       bool       // its mapping is written in braces
}

// rewrite calls each with the old keys of a text, and returns it with the edits that each has asked for.
func rewrite(text string, each func(*rewriting, entry, renaming)) (string, []Change, error) {
	w := &rewriting{text: text, lines: []int{0}}
	for i, c := range []byte(text) {
		if c == '\n' {
			w.lines = append(w.lines, i+1)
		}
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return "", nil, errs.New(errs.Invalid, "read it again: %w", err)
	}
	entries(document.Content[0], "", func(path string, e entry) {
		if r, ok := formerly(path); ok {
			each(w, e, r)
		}
	})
	return w.append(w.edited(), document.Content[0]), w.changes, w.err
}

// edited returns the text with all edits. Entries that stand one behind the other are taken out together.
func (w *rewriting) edited() string {
	slices.SortFunc(w.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	text := w.text
	for i := len(w.edits) - 1; i >= 0; i-- {
		e := w.edits[i]
		for ; i > 0 && e.text == "" && w.edits[i-1].text == "" && w.edits[i-1].to == e.from; i-- {
			e.from = w.edits[i-1].from
		}
		before := text[:e.from]
		if e.last {
			before = strings.TrimSuffix(strings.TrimRight(before, " \t\n"), ",")
		}
		text = before + e.text + text[e.to:]
	}
	return text
}

// append writes the entries that are moved to the end of the file.
func (w *rewriting) append(text string, root *yaml.Node) string {
	if len(w.moved) == 0 {
		return text
	}
	if root.Style&yaml.FlowStyle != 0 { // as in JSON
		end := strings.LastIndexByte(text, '}')
		return text[:end] + ", " + strings.Join(w.moved, ", ") + text[end:]
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + strings.Join(w.moved, "\n") + "\n"
}

// entries calls each with the entries of all mappings below a node, and their paths. What an alias stands for is met
// where it is written.
func entries(node *yaml.Node, path string, each func(path string, e entry)) {
	switch node.Kind {
	case yaml.SequenceNode:
		for _, element := range node.Content {
			entries(element, path+"[]", each)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			e := entry{key: node.Content[i], value: node.Content[i+1], flow: node.Style&yaml.FlowStyle != 0}
			if i+2 < len(node.Content) {
				e.next = node.Content[i+2]
			}
			below := strings.TrimPrefix(path+"."+e.key.Value, ".")
			each(below, e)
			entries(e.value, below, each)
		}
	}
}

// rename gives a key its new name in its place.
func (w *rewriting) rename(e entry, r renaming) {
	at := w.offset(e.key)
	if quoted := e.key.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0; quoted {
		at++
	}
	if !strings.HasPrefix(w.text[at:], e.key.Value) {
		w.err = errors.Join(w.err, errs.New(errs.Invalid, "line %d: %s", e.key.Line, r).
			With("write it by hand: how it is written here is too unusual"))
		return
	}
	_, word := split(r.new)
	w.edits = append(w.edits, edit{from: at, to: at + len(e.key.Value), text: word})
	if r.final() == r { // else it is told with what has become of its new name
		w.changes = append(w.changes, Change{e.key.Line, r.String()})
	}
}

// takeOut takes an entry out of its place, and writes it at the end where it has another one.
func (w *rewriting) takeOut(e entry, r renaming) {
	what := r.String()
	switch {
	case r.new != "":
		what += ", and stands at the end of the file"
		w.moved = append(w.moved, w.atMargin(e, r.new))
	case e.value.Kind == yaml.ScalarNode && e.value.Value != "":
		what += " (it was " + e.value.Value + ")"
	}
	from, to := w.extent(e)
	w.edits = append(w.edits, edit{from: from, to: to, last: e.flow && e.next == nil})
	w.changes = append(w.changes, Change{e.key.Line, what})
}

// atMargin returns an entry as it stands at the left margin under its new name.
func (w *rewriting) atMargin(e entry, name string) string {
	key := w.offset(e.key)
	colon := key + strings.IndexByte(w.text[key:], ':')
	if e.flow {
		return name + strings.TrimRight(w.text[colon:w.flowEnd(colon)], " \n")
	}
	from, to := w.extent(e)
	indent := strings.Repeat(" ", e.key.Column-1)
	out := ""
	for line := range strings.Lines(w.text[from:key]) { // comments
		out += strings.TrimPrefix(line, indent)
	}
	out += name
	for line := range strings.Lines(w.text[colon:to]) {
		out += strings.TrimPrefix(line, indent)
	}
	return strings.TrimRight(out, "\n ")
}

// extent returns where an entry begins and ends, with what separates it from others and the comments right above it.
func (w *rewriting) extent(e entry) (from, to int) {
	from = w.offset(e.key)
	line := e.key.Line - 1
	switch before := w.text[w.lines[line]:from]; {
	case e.next != nil && (e.flow || strings.TrimSpace(before) != ""):
		return from, w.offset(e.next)
	case e.flow:
		return from, w.flowEnd(from)
	case strings.TrimSpace(before) != "":
		return from, w.lineStart(w.blockEnd(e))
	}
	for line > 0 && w.isComment(line-1) && w.indent(line-1) == e.key.Column-1 {
		line--
	}
	return w.lines[line], w.lineStart(w.blockEnd(e))
}

// blockEnd returns the first line behind an entry that is not written in braces: one that is not indented more. The
// items of a list may stand below its key without.
func (w *rewriting) blockEnd(e entry) int {
	column := e.key.Column - 1
	end := e.key.Line
	for line := end; line < len(w.lines); line++ {
		text := w.text[w.lines[line]:w.lineStart(line+1)]
		item := e.value.Kind == yaml.SequenceNode && w.indent(line) == column &&
			strings.HasPrefix(strings.TrimSpace(text), "-")
		switch blank := strings.TrimSpace(text) == ""; {
		case blank || w.isComment(line) && w.indent(line) <= column:
		case w.indent(line) > column || item:
			end = line + 1
		default:
			return end
		}
	}
	return end
}

// flowEnd returns where the entry of a mapping in braces ends: at the comma or the brace behind it.
func (w *rewriting) flowEnd(at int) int {
	depth, last := 0, byte(':') // the last character that is no space
	for i := at; i < len(w.text); i++ {
		c := w.text[i]
		switch quote := (c == '"' || c == '\'') && strings.IndexByte(",:[{", last) >= 0; {
		case quote:
			for i++; i < len(w.text) && w.text[i] != c; i++ {
				if c == '"' && w.text[i] == '\\' {
					i++
				}
			}
		case c == '#' && strings.IndexByte(" \t\n", w.text[i-1]) >= 0:
			for i < len(w.text) && w.text[i] != '\n' {
				i++
			}
			continue
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}'):
			return i
		case c == '}' || c == ']':
			depth--
		}
		if c != ' ' && c != '\n' {
			last = c
		}
	}
	return len(w.text)
}

// offset returns where a node begins. Its column counts characters.
func (w *rewriting) offset(n *yaml.Node) int {
	at := w.lines[n.Line-1]
	count := 0
	for i := range w.text[at:] {
		if count++; count == n.Column {
			return at + i
		}
	}
	return len(w.text)
}

func (w *rewriting) lineStart(line int) int {
	if line >= len(w.lines) {
		return len(w.text)
	}
	return w.lines[line]
}

func (w *rewriting) isComment(line int) bool {
	return strings.HasPrefix(strings.TrimSpace(w.text[w.lines[line]:w.lineStart(line+1)]), "#")
}

func (w *rewriting) indent(line int) int {
	text := w.text[w.lines[line]:]
	return len(text) - len(strings.TrimLeft(text, " "))
}
