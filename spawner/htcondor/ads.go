package htcondor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// ad is a ClassAd: names in any case, with values, expressions or other ads.
type ad struct {
	attributes map[string]expr // by lower-case name
	// open says that it holds only a part of what the real one does: what it lacks cannot be judged.
	open bool
}

func newAd() *ad { return &ad{attributes: map[string]expr{}} }

// find gives an attribute by its lower-case name. Nil ads have none.
func (a *ad) find(name string) (expr, bool) {
	if a == nil {
		return nil, false
	}
	e, found := a.attributes[name]
	if raw, is := e.(unread); is {
		e = raw.expr()
	}
	return e, found
}

func (a *ad) isOpen() bool { return a != nil && a.open }

// set gives an attribute a value.
func (a *ad) set(name string, v value) { a.attributes[strings.ToLower(name)] = literal{v} }

// get evaluates an attribute by itself.
func (a *ad) get(name string) value { return evaluate(attribute{"my", strings.ToLower(name)}, a, nil) }

func (a *ad) text(name string) string {
	s, _ := a.get(name).(string)
	return s
}

func (a *ad) number(name string) (float64, bool) { return number(a.get(name)) }

// over gives a copy of a in which some attributes are others.
func (a *ad) over(changes map[string]value) *ad {
	b := &ad{attributes: make(map[string]expr, len(a.attributes)), open: a.open}
	for name, e := range a.attributes {
		b.attributes[name] = e
	}
	for name, v := range changes {
		b.set(name, v)
	}
	return b
}

// unread is an expression as it is written. Most of an ad's are never looked at.
type unread string

func (u unread) expr() expr {
	e, err := parseExpr(string(u))
	if err != nil {
		return literal{unjudged{"it is written in a way that is not known here"}}
	}
	return e
}

// parseAds reads what HTCondor's tools print with -json. No ads at all are printed as nothing.
func parseAds(b []byte) ([]*ad, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var raw []map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("read the ads of HTCondor: %w", err)
	}
	ads := make([]*ad, len(raw))
	for i, r := range raw {
		ads[i] = adFrom(r)
	}
	return ads, nil
}

func adFrom(r map[string]any) *ad {
	a := &ad{attributes: make(map[string]expr, len(r))}
	for name, v := range r {
		a.attributes[strings.ToLower(name)] = exprFrom(v)
	}
	return a
}

// exprFrom gives what stands in an ad's JSON. What is no plain value is written there as the text "/Expr(...)/".
func exprFrom(v any) expr {
	switch v := v.(type) {
	case string:
		if inner, is := strings.CutPrefix(v, "/Expr("); is && strings.HasSuffix(inner, ")/") {
			return unread(strings.TrimSuffix(inner, ")/"))
		}
		return literal{v}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return literal{n}
		}
		f, err := v.Float64()
		if err != nil {
			return literal{failed{}}
		}
		return literal{f}
	case bool:
		return literal{v}
	case []any:
		items := make([]expr, len(v))
		for i, item := range v {
			items[i] = exprFrom(item)
		}
		return listOf{items}
	case map[string]any:
		return adOf{adFrom(v)}
	default:
		return literal{}
	}
}
