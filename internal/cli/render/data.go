package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// YAML prints a JSON text as YAML, with its keys in the same order.
func YAML(w io.Writer, text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	inBlocks(&doc)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return err
	}
	_, err := w.Write(asciiControls(b.Bytes()))
	return err
}

// inBlocks gives nodes of a JSON text the style that people write YAML in. What a terminal acts on is quoted, where it
// can be escaped.
func inBlocks(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	if strings.ContainsFunc(n.Value, acts) {
		n.Style |= yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		inBlocks(child)
	}
}

// Names prints what a JSON text lists, one a line: the word by which a command takes it.
func Names(w io.Writer, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	for _, name := range namesIn(v) {
		if _, err := fmt.Fprintln(w, Printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the name of an object, or those of the objects in a list or in the fields of an answer.
func namesIn(v any) (names []string) {
	switch v := v.(type) {
	case []any:
		for _, each := range v {
			names = append(names, namesIn(each)...)
		}
	case map[string]any:
		for _, key := range []string{"id", "digest", "fingerprint", "uuid", "name"} {
			if name, ok := v[key].(string); ok && name != "" {
				return []string{name}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			names = append(names, namesIn(v[key])...)
		}
	}
	return names
}
