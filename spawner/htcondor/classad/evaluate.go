package classad

import (
	"math"
	"strings"
)

// Value is what an expression gives: nil for undefined, an error, Unjudged, bool, int64, float64, string, []Value or
// *Ad.
type Value any

// failed is a ClassAd's error.
type failed struct{}

// Unjudged stands for what only HTCondor itself can say: a function that is not known here, or an attribute of a job or
// of a later time.
type Unjudged struct{ Why string }

// evaluation is one question to a pair of ads.
type evaluation struct {
	my, target *Ad
	inner      *Ad // a nested ad in whose terms a part is evaluated
	steps      *int
	depth      int
}

// mostSteps bounds what one question may cost, whatever an ad holds.
const (
	mostSteps    = 20_000
	deepestValue = 64
)

// Evaluate returns what e is in the terms of my, with target on the other side. Either may be nil.
func Evaluate(e Expr, my, target *Ad) Value {
	steps := 0
	return evaluation{my: my, target: target, steps: &steps}.value(e)
}

func (v evaluation) value(e Expr) Value {
	if *v.steps++; *v.steps > mostSteps || v.depth > deepestValue {
		return Unjudged{"it is too long or refers to itself"}
	}
	v.depth++
	switch e := e.(type) {
	case literal:
		return e.v
	case unread:
		return v.value(e.expr())
	case attribute:
		return v.attribute(e)
	case member:
		return v.member(e)
	case unary:
		return v.unary(e)
	case binary:
		return v.binary(e)
	case ternary:
		return v.ternary(e)
	case call:
		return v.call(e)
	case listOf:
		items := make([]Value, len(e.items))
		for i, item := range e.items {
			items[i] = v.value(item)
		}
		return items
	case adOf:
		return e.ad
	default:
		return Unjudged{"it cannot be read"}
	}
}

// attribute looks a name up: in the nested ad, in its own ad, and, unless a scope is named, in the other side's.
func (v evaluation) attribute(a attribute) Value {
	if v.inner != nil && a.scope == "" {
		if e, found := v.inner.find(a.name); found {
			return v.value(e)
		}
	}
	if a.scope != "target" {
		if e, found := v.my.find(a.name); found {
			v.inner = nil
			return v.value(e)
		}
	}
	if a.scope != "my" {
		if e, found := v.target.find(a.name); found {
			return evaluation{my: v.target, target: v.my, steps: v.steps, depth: v.depth}.value(e)
		}
	}
	if v.inner != nil && a.scope == "" {
		return nil // a GPU's ad is all there
	}
	if a.scope != "target" && v.my.isOpen() || a.scope != "my" && v.target.isOpen() {
		return Unjudged{"it depends on the job's " + a.name}
	}
	return nil
}

func (v evaluation) member(m member) Value {
	switch of := v.value(m.of).(type) {
	case *Ad:
		e, found := of.find(m.name)
		if !found {
			return nil
		}
		v.inner = of
		return v.value(e)
	case nil, Unjudged:
		return of
	default:
		return failed{}
	}
}

func (v evaluation) unary(u unary) Value {
	x := v.value(u.x)
	switch {
	case u.op == "!":
		return not(Truth(x))
	case x == nil:
		return nil
	}
	switch n := x.(type) {
	case Unjudged:
		return n
	case int64:
		if u.op == "-" {
			return -n
		}
		return n
	case float64:
		if u.op == "-" {
			return -n
		}
		return n
	default:
		return failed{}
	}
}

// Truth returns a value as a condition: bool, nil, an error or Unjudged. Numbers count as in C.
func Truth(x Value) Value {
	switch x := x.(type) {
	case nil, bool, Unjudged:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	default:
		return failed{}
	}
}

func not(x Value) Value {
	if b, ok := x.(bool); ok {
		return !b
	}
	return x
}

func (v evaluation) ternary(t ternary) Value {
	if t.yes == nil {
		if x := v.value(t.cond); x != nil {
			return x
		}
		return v.value(t.no)
	}
	switch cond := Truth(v.value(t.cond)).(type) {
	case bool:
		if cond {
			return v.value(t.yes)
		}
		return v.value(t.no)
	default:
		return cond
	}
}

func (v evaluation) binary(b binary) Value {
	switch b.op {
	case "&&":
		return v.both(b, false)
	case "||":
		return v.both(b, true)
	}
	x, y := v.value(b.x), v.value(b.y)
	for _, side := range []Value{x, y} {
		if u, is := side.(Unjudged); is {
			return u
		}
	}
	switch b.op {
	case "=?=":
		return identical(x, y)
	case "=!=":
		return !identical(x, y)
	}
	for _, side := range []Value{x, y} {
		if _, is := side.(failed); is {
			return side
		}
	}
	if x == nil || y == nil {
		return nil
	}
	if strings.ContainsAny(b.op, "=<>!") {
		return compare(b.op, x, y)
	}
	return arithmetic(b.op, x, y)
}

// both is "and" with decides false, "or" with decides true: the side that decides wins over what is undefined or cannot
// be judged.
func (v evaluation) both(b binary, decides bool) Value {
	x := Truth(v.value(b.x))
	if x == decides {
		return decides
	}
	if _, bad := x.(failed); bad {
		return x
	}
	y := Truth(v.value(b.y))
	switch {
	case y == decides:
		return decides
	case x == !decides:
		return y
	case y == !decides:
		return x
	}
	if _, bad := y.(failed); bad {
		return y
	}
	if u, is := y.(Unjudged); is {
		return u
	}
	return x
}

// identical is =?=: of the same type, and texts in the same case.
func identical(x, y Value) bool {
	switch x := x.(type) {
	case nil:
		return y == nil
	case failed:
		_, same := y.(failed)
		return same
	case bool, int64, float64, string:
		return x == y
	default:
		return false
	}
}

func compare(op string, x, y Value) Value {
	order := 0
	a, isText := x.(string)
	b, both := y.(string)
	switch {
	case isText && both:
		order = strings.Compare(strings.ToLower(a), strings.ToLower(b))
	case isText || both:
		return failed{}
	default:
		n, ok := number(x)
		m, too := number(y)
		if !ok || !too || math.IsNaN(n) || math.IsNaN(m) {
			return failed{}
		}
		order = map[bool]int{true: 1}[n > m] - map[bool]int{true: 1}[n < m]
	}
	return ordered(op, order)
}

// ordered says what an operator makes of an order.
func ordered(op string, order int) Value {
	switch op {
	case "==":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	default:
		return failed{}
	}
}

// number returns a value as a number; true is 1.
func number(x Value) (float64, bool) {
	switch x := x.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	default:
		return 0, false
	}
}

func arithmetic(op string, x, y Value) Value {
	a, whole := x.(int64)
	b, too := y.(int64)
	if whole && too {
		return integers(op, a, b)
	}
	n, ok := number(x)
	m, also := number(y)
	if !ok || !also {
		return failed{}
	}
	switch op {
	case "+":
		return n + m
	case "-":
		return n - m
	case "*":
		return n * m
	case "/":
		if m == 0 {
			return failed{}
		}
		return n / m
	default:
		return failed{}
	}
}

func integers(op string, a, b int64) Value {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	}
	if b == 0 || b == -1 {
		return map[bool]Value{true: failed{}, false: -a}[b == 0 || op == "%"]
	}
	if op == "/" {
		return a / b
	}
	return a % b
}
