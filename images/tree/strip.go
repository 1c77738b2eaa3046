package tree

import (
	"path"
	"slices"
	"strings"

	"slipway/internal/errs"
)

// Strip matches paths against strip rules on the way down a tree.
type Strip struct {
	rules []string // sorted, without duplicates
	parts [][]string
}

// NewStrip makes a Strip of the default rules and extra ones.
func NewStrip(extra []string) (*Strip, error) {
	return ExactStrip(append(DefaultStrip(), extra...))
}

// CarriedStrip is like NewStrip for a tree that nobody gets but the user whose session it was: where her home was not
// mounted, it was part of that tree, and comes along.
func CarriedStrip(extra []string) (*Strip, error) {
	s, err := NewStrip(extra)
	if err != nil {
		return nil, err
	}
	return ExactStrip(
		slices.DeleteFunc(s.Rules(), func(rule string) bool { return rule == homes && !slices.Contains(extra, homes) }),
	)
}

// ExactStrip makes a Strip of these rules alone, such as those that an older freeze went by.
func ExactStrip(rules []string) (*Strip, error) {
	s := &Strip{rules: slices.Clone(rules)}
	slices.Sort(s.rules)
	s.rules = slices.Compact(s.rules)
	for _, rule := range s.rules {
		if err := checkRule(rule); err != nil {
			return nil, err
		}
		s.parts = append(s.parts, strings.Split(rule[1:], "/"))
	}
	return s, nil
}

func checkRule(rule string) error {
	remedy := "write a clean absolute path; * ? and [...] match within one part of it"
	if !strings.HasPrefix(rule, "/") || rule == "/" || path.Clean(rule) != rule {
		return errs.Bad("strip", rule, remedy)
	}
	for part := range strings.SplitSeq(rule[1:], "/") {
		if _, err := path.Match(part, "x"); err != nil {
			return errs.Bad("strip", rule, remedy)
		}
	}
	return nil
}

// Rules lists every rule, sorted.
func (s *Strip) Rules() []string { return slices.Clone(s.rules) }

// Live holds the rest of each rule that can still match below a directory.
type Live [][]string

// Top returns what can match below the root.
func (s *Strip) Top() Live { return s.parts }

// Enter says whether the child called name is stripped, and which rules live on below it.
func (l Live) Enter(name string) (stripped bool, below Live) {
	for _, parts := range l {
		if ok, err := path.Match(parts[0], name); err != nil || !ok {
			continue
		}
		if len(parts) == 1 {
			return true, nil
		}
		below = append(below, parts[1:])
	}
	return false, below
}

// All says whether nothing is left of a directory whatever it holds: the times of such a directory tell of stripped
// entries alone.
func (l Live) All() bool {
	return slices.ContainsFunc(l, func(parts []string) bool { return len(parts) == 1 && parts[0] == "*" })
}
