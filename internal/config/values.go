package config

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"slipway/internal/disksize"
	"slipway/internal/memsize"
)

// Size is a number of bytes of memory, written as in "2G" (2 GiB).
type Size int64

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(node ast.Node) error {
	n, err := memsize.Parse(scalar(node))
	if err != nil {
		return wrong(node, memsize.Hint)
	}
	*s = Size(n)
	return nil
}

// Bound is a number of bytes on disks that may not be exceeded, as in "50G" (50,000,000,000), or "none", which is 0.
type Bound int64

// UnmarshalYAML reads a bound.
func (b *Bound) UnmarshalYAML(node ast.Node) error {
	if scalar(node) == "none" {
		*b = 0
		return nil
	}
	n, err := disksize.Parse(scalar(node))
	if err != nil {
		return wrong(node, "none, or "+disksize.Hint)
	}
	*b = Bound(n)
	return nil
}

// Duration is a time such as "90m".
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	v, err := time.ParseDuration(scalar(node))
	if err != nil {
		return wrong(node, "a time such as 90m or 24h")
	}
	*d = Duration(v)
	return nil
}

// Range is an inclusive range of ids, written as in "20000-59999".
type Range struct{ First, Last int }

// UnmarshalYAML reads a range.
func (r *Range) UnmarshalYAML(node ast.Node) error {
	text := scalar(node)
	var got Range
	_, err := fmt.Sscanf(text, "%d-%d", &got.First, &got.Last)
	if err != nil || got.String() != text {
		return wrong(node, "a range such as 20000-59999")
	}
	*r = got
	return nil
}

// String writes the range as the configuration has it.
func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// scalar gives a plain value as it is written, without quotes; lists and mappings give what none of the types accepts.
func scalar(node ast.Node) string {
	if n, ok := node.(ast.ScalarNode); ok {
		return n.GetToken().Value
	}
	return "[" + node.Type().String() + "]"
}

// wrong makes an error that carries the place of node.
func wrong(node ast.Node, want string) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf("%.40q is not %s", scalar(node), want), Token: node.GetToken()}
}
