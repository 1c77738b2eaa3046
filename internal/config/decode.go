package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"slipway/internal/errs"
)

// maxNodes bounds what aliases can make of a small file.
const maxNodes = 100_000

// Decode reads one YAML document into the struct that v points to, over what the struct holds already. It is strict: a
// key that the struct lacks, a key that is not text, a key that stands twice and a value of another kind are mistakes.
// It returns all of them in the order of the file; each begins with its line. help is the remedy where there is no
// better one.
//
// The library parses; what fits where is decided here, because the library passes silently over a key that is not text
// and over all that is below it.
func Decode(text []byte, v any, help string) []error { return decode(text, v, help, false) }

// decode is Decode. Passing, it passes over keys of earlier versions.
func decode(text []byte, v any, help string, passing bool) []error {
	root := reflect.TypeOf(v).Elem()
	d := decoder{help: help, lines: strings.Split(string(text), "\n"), root: root, passing: passing}
	if node := d.parse(text); node != nil {
		d.value(node, reflect.ValueOf(v).Elem(), "")
	}
	return d.mistakes
}

// defaulter is an element of a list whose keys have defaults.
type defaulter interface{ setDefaults() }

type decoder struct {
	lines    []string
	help     string
	root     reflect.Type
	passing  bool // over keys of earlier versions
	nodes    int
	mistakes []error
}

// parse returns the document's value; nil when there is none.
func (d *decoder) parse(text []byte) *yaml.Node {
	loader := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, another yaml.Node
	if err := loader.Decode(&document); err != nil {
		d.syntax(err)
		return nil
	}
	if err := loader.Decode(&another); !errors.Is(err, io.EOF) {
		if err != nil {
			d.syntax(err)
		} else {
			d.add(another.Line, 1, "a second document begins here", "give one document: remove the line ---")
		}
		return nil
	}
	if body := document.Content[0]; body.ShortTag() != "!!null" {
		return body
	}
	d.syntax(io.EOF)
	return nil
}

// syntax reports what is no YAML.
func (d *decoder) syntax(err error) {
	if errors.Is(err, io.EOF) {
		d.mistakes = append(d.mistakes, errs.New(errs.Invalid, "there is nothing in it").With(d.help))
		return
	}
	message, at := err.Error(), yaml.Mark{}
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		message, at = e.Message, e.Mark
	}
	d.add(
		max(at.Line, 1), max(at.Column, 1), "this is no YAML: "+message,
		"indent by spaces, and quote values that hold : or #",
	)
}

// value reads a node into v. path names the key, as in "hubs[].name".
func (d *decoder) value(node *yaml.Node, v reflect.Value, path string) {
	if d.nodes++; d.nodes >= maxNodes {
		if d.nodes == maxNodes {
			d.wrong(node, "the aliases of this file make too much of it", "write out what they stand for")
		}
		return
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return // a key without a value: the default holds
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := text.UnmarshalText([]byte(scalar(node))); err != nil {
			d.wrong(node, err.Error(), d.help)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(node, v.Elem(), path)
	case reflect.Struct:
		d.fields(node, v, path)
	case reflect.Slice:
		d.list(node, v, path)
	case reflect.Map:
		d.mapping(node, v, path)
	default:
		if node.Kind != yaml.ScalarNode || node.Decode(v.Addr().Interface()) != nil {
			d.wrongKind(node, v.Type())
		}
	}
}

// fields reads a mapping into a struct.
func (d *decoder) fields(node *yaml.Node, v reflect.Value, path string) {
	d.pairs(node, v.Type(), func(key, value *yaml.Node) {
		field, ok := fieldOf(v, key.Value)
		below := strings.TrimPrefix(path+"."+key.Value, ".")
		if !ok {
			d.unknown(key, path, below)
			return
		}
		d.value(value, field, below)
	})
}

// unknown reports a key that a struct lacks, and of one that earlier versions had what has become of it.
func (d *decoder) unknown(key *yaml.Node, path, below string) {
	was, ok := formerly(below)
	switch old := ok && d.root == reflect.TypeFor[Config](); {
	case !old:
		d.wrong(key, fmt.Sprintf("unknown field %q", key.Value), d.meant(key.Value, path))
	case !d.passing:
		d.wrong(key, was.String(), "`slipway config migrate FILE --write` rewrites the file")
	}
}

// list reads a sequence into a slice. What the slice held before is gone.
func (d *decoder) list(node *yaml.Node, v reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		d.wrongKind(node, v.Type())
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
	for i, element := range node.Content {
		if e, ok := v.Index(i).Addr().Interface().(defaulter); ok {
			e.setDefaults()
		}
		d.value(element, v.Index(i), path+"[]")
	}
}

// mapping reads a mapping into a map whose keys are text.
func (d *decoder) mapping(node *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(node, v.Type(), func(key, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, element, path+"{}")
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
	})
}

// pairs calls each with the keys and values of a mapping.
func (d *decoder) pairs(node *yaml.Node, t reflect.Type, each func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		d.wrongKind(node, t)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.ShortTag() == "!!merge":
			d.wrong(key, "<< does not merge here", "write out the keys that it stands for")
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			d.wrong(key, fmt.Sprintf("the key %s is not text", scalar(key)), d.notText(key))
		case seen[key.Value]:
			d.wrong(key, fmt.Sprintf("%q stands here for the second time", key.Value), "give each key once")
		default:
			seen[key.Value] = true
			each(key, value)
		}
	}
}

// notText says what to do about a key that is another kind of value.
func (d *decoder) notText(key *yaml.Node) string {
	if key.ShortTag() == "!!bool" {
		return "YAML 1.1 programs write on and yes as true; " + d.help
	}
	return "if it is meant, write it in quotes; " + d.help
}

// meant says which of the known keys an unknown one below path is meant to be.
func (d *decoder) meant(key, path string) string {
	section, _, _ := strings.Cut(path, ".")
	all := keys(d.root, "")
	own, word := keysOf(all, strings.TrimSuffix(section, "[]")), strings.ToLower(key)
	if near := cmp.Or(nearest(word, own), begun(word, own), nearest(word, all)); near != "" {
		return "did you mean " + near + "? " + d.help
	}
	return d.help
}

// fieldOf returns the field of a struct, or of one that it embeds, that a key stands for.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for f, field := range v.Fields() {
		if f.Anonymous {
			if of, ok := fieldOf(field, key); ok {
				return of, true
			}
			continue
		}
		if f.Tag.Get("yaml") == key {
			return field, true
		}
	}
	return reflect.Value{}, false
}

// scalar returns a plain value as it is written, without quotes. Lists and mappings return what no type accepts.
func scalar(node *yaml.Node) string {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value
	case yaml.SequenceNode:
		return "[list]"
	default:
		return "{mapping}"
	}
}

// wrongKind reports a value that is not what its key holds.
func (d *decoder) wrongKind(node *yaml.Node, t reflect.Type) {
	d.wrong(node, fmt.Sprintf("%.40q is not %s", scalar(node), kindName(t)), d.help)
}

// kindName says what a key of a type holds.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping of keys to values"
	default:
		return "a whole number"
	}
}

func (d *decoder) wrong(node *yaml.Node, message, remedy string) {
	d.add(node.Line, node.Column, message, remedy)
}

// add keeps a mistake, with the line that it stands in and a mark below its place.
func (d *decoder) add(line, column int, message, remedy string) {
	shown := ""
	if line >= 1 && line <= len(d.lines) && strings.TrimSpace(d.lines[line-1]) != "" {
		shown = fmt.Sprintf("\n%5d | %s\n%s^", line, d.lines[line-1], strings.Repeat(" ", 7+max(column, 1)))
	}
	d.mistakes = append(d.mistakes, errs.New(errs.Invalid, "line %d: %s%s", line, message, shown).With(remedy))
}
