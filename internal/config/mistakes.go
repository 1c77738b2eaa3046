package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// mistakes reads YAML into c, and gives all that cannot be read so, in the order of the file. The library tells one at a time: that one
// is cut out of a copy, and the rest is read again.
func mistakes(text []byte, c *Config) []error {
	err := decode(text, c)
	if err == nil {
		return nil
	}
	all := []error{err}
	if place(err).Line == 0 { // it has no place, or the library panicked
		return all
	}
	file, bad := parser.ParseBytes(text, 0)
	if bad != nil || len(file.Docs) == 0 {
		return all
	}
	for body := file.Docs[0].Body; cut(body, place(err)); {
		if err = decodeNode(body); err == nil {
			break
		}
		all = append(all, err)
	}
	slices.SortStableFunc(all, func(a, b error) int {
		at, bt := place(a), place(b)
		return cmp.Or(cmp.Compare(at.Line, bt.Line), cmp.Compare(at.Column, bt.Column))
	})
	return all
}

// place is where a mistake stands; nowhere for one of which the library does not say it.
func place(err error) token.Position {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil && e.GetToken().Position != nil {
		return *e.GetToken().Position
	}
	return token.Position{}
}

// cut takes out of a mapping what has its key or its value at a place, and reports whether there was such.
func cut(body ast.Node, at token.Position) bool {
	c := &cutter{at: at}
	if body != nil && at.Line > 0 {
		ast.Walk(c, body)
	}
	return c.done
}

type cutter struct {
	at   token.Position
	done bool
}

// Visit is called with each node.
func (c *cutter) Visit(node ast.Node) ast.Visitor {
	if m, ok := node.(*ast.MappingNode); ok {
		before := len(m.Values)
		m.Values = slices.DeleteFunc(m.Values, func(v *ast.MappingValueNode) bool { return c.here(v.Key) || c.here(v.Value) })
		c.done = c.done || len(m.Values) < before
	}
	return c
}

func (c *cutter) here(node ast.Node) bool {
	t := node.GetToken()
	return t != nil && t.Position != nil && t.Position.Line == c.at.Line && t.Position.Column == c.at.Column
}

// decodeNode looks what else cannot be read.
func decodeNode(body ast.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the YAML cannot be read: %v", p)
		}
	}()
	c := Default()
	return yaml.NodeToValue(body, &c, yaml.Strict())
}
