package classad

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// call evaluates a function. Of those that ClassAds have, the ones that requirements are written with are known here.
func (v evaluation) call(c call) Value {
	switch c.name {
	case "countmatches":
		return v.matches(c)
	case "ifthenelse":
		if len(c.args) != 3 {
			return failed{}
		}
		return v.ternary(ternary{c.args[0], c.args[1], c.args[2]})
	}
	args := make([]Value, len(c.args))
	for i, a := range c.args {
		args[i] = v.value(a)
		if u, is := args[i].(Unjudged); is {
			return u
		}
	}
	switch {
	case len(args) == 1 && c.name == "isundefined":
		return args[0] == nil
	case len(args) == 1 && c.name == "size":
		return sizeOf(args[0])
	case len(args) == 1 && (c.name == "int" || c.name == "real"):
		return converted(c.name, args[0])
	case len(args) == 2 && (c.name == "regexp" || strings.HasPrefix(c.name, "version") ||
		c.name == "stringlistmember" || c.name == "stringlistimember"):
		return ofTexts(c.name, args[0], args[1])
	case len(args) == 2 && c.name == "member":
		return contains(args[0], args[1])
	case len(args) == 3 && c.name == "substr":
		return substring(args[0], args[1], args[2])
	}
	return Unjudged{"it uses " + c.name + "()"}
}

// matches is countMatches: of how many ads of a list an expression is true in their terms. One that is an attribute's
// name alone stands for that attribute's expression. Without a list there are none.
func (v evaluation) matches(c call) Value {
	if len(c.args) != 2 {
		return failed{}
	}
	what := c.args[0]
	if a, is := what.(attribute); is && a.scope != "target" {
		e, found := v.my.find(a.name)
		if !found {
			return nil
		}
		what = e
	}
	var list []Value
	switch l := v.value(c.args[1]).(type) {
	case []Value:
		list = l
	case nil:
	case Unjudged:
		return l
	default:
		return failed{}
	}
	n := int64(0)
	for _, item := range list {
		inner, is := item.(*Ad)
		if !is {
			continue
		}
		in := v
		in.inner = inner
		switch fits := Truth(in.value(what)).(type) {
		case Unjudged:
			return fits
		case bool:
			if fits {
				n++
			}
		}
	}
	return n
}

func sizeOf(x Value) Value {
	switch x := x.(type) {
	case nil:
		return nil
	case string:
		return int64(len(x))
	case []Value:
		return int64(len(x))
	default:
		return failed{}
	}
}

func converted(name string, x Value) Value {
	n, ok := number(x)
	switch {
	case x == nil:
		return nil
	case !ok:
		return Unjudged{"it converts a text to a number"}
	case name == "int":
		return int64(n)
	}
	return n
}

// ofTexts evaluates the functions of two texts.
func ofTexts(name string, x, y Value) Value {
	if x == nil || y == nil {
		return nil
	}
	a, ok := x.(string)
	b, too := y.(string)
	if !ok || !too {
		return Unjudged{"it makes texts of other values"}
	}
	switch name {
	case "regexp":
		r, err := regexp.Compile(a)
		if err != nil {
			return Unjudged{"it uses a pattern that is not known here"}
		}
		return r.MatchString(b)
	case "stringlistmember":
		return slices.Contains(StringList(b), a)
	case "stringlistimember":
		return slices.ContainsFunc(StringList(b), func(w string) bool { return strings.EqualFold(w, a) })
	}
	op, known := map[string]string{
		"versioneq": "==", "versionge": ">=", "versiongt": ">", "versionle": "<=", "versionlt": "<",
	}[name]
	if !known {
		return Unjudged{"it uses " + name + "()"}
	}
	return ordered(op, CompareVersions(a, b))
}

// StringList cuts a list that is written as one text.
func StringList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// CompareVersions compares as HTCondor's version functions do: runs of digits by their value, the rest by its bytes.
func CompareVersions(a, b string) int {
	for a != "" && b != "" {
		n, m := span(a, isDigit), span(b, isDigit)
		if n == 0 || m == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
		if order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); order != 0 {
			return order
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// contains is member: identical in type, texts in any case.
func contains(x, list Value) Value {
	items, is := list.([]Value)
	if list == nil {
		return nil
	}
	if !is {
		return failed{}
	}
	for _, item := range items {
		if item == nil || x == nil {
			continue
		}
		if same := compare("==", x, item); same == true {
			return true
		}
	}
	return false
}

func substring(x, from, length Value) Value {
	s, isText := x.(string)
	at, ok := from.(int64)
	n, too := length.(int64)
	switch {
	case x == nil:
		return nil
	case !isText || !ok || !too:
		return failed{}
	case at < 0 || n < 0:
		return Unjudged{"it counts from the end of a text"}
	}
	at = min(at, int64(len(s)))
	return s[at:min(at+n, int64(len(s)))]
}
