// Package classad reads HTCondor's ClassAds and judges expressions in their terms, as far as that can be done away from
// HTCondor: the ads that its tools print with -json, and the expressions that requirements are written with.
//
// It promises that what it cannot judge (a function that is not known here, what is not in a part of an ad) is told as
// Unjudged, and not guessed; that its answers are those of HTCondor's own library (classad_eval of 23.9) for all that
// its tests list; and that no ad, whoever wrote it, takes more than a bounded time. It must not know slots, jobs, or
// Slipway.
//
// The language: https://htcondor.readthedocs.io, "ClassAd Mechanism".
package classad

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Ad is a ClassAd: names in any case, with values, expressions or other ads.
type Ad struct {
	attributes map[string]Expr // by lower-case name
	// open says that it holds only a part of what the real one does: what it lacks cannot be judged.
	open bool
}

// New makes an ad without attributes.
func New() *Ad { return &Ad{attributes: map[string]Expr{}} }

// NewPart makes an ad that will hold only a part of what the real one does.
func NewPart() *Ad { return &Ad{attributes: map[string]Expr{}, open: true} }

// find returns an attribute by its lower-case name. Nil ads have none.
func (a *Ad) find(name string) (Expr, bool) {
	if a == nil {
		return nil, false
	}
	e, found := a.attributes[name]
	if raw, is := e.(unread); is {
		e = raw.expr()
	}
	return e, found
}

func (a *Ad) isOpen() bool { return a != nil && a.open }

// Set gives an attribute a value.
func (a *Ad) Set(name string, v Value) { a.attributes[strings.ToLower(name)] = literal{v} }

// SetExpr gives an attribute an expression as it is written.
func (a *Ad) SetExpr(name, text string) { a.attributes[strings.ToLower(name)] = unread(text) }

// Get evaluates an attribute by itself.
func (a *Ad) Get(name string) Value { return Evaluate(attribute{"my", strings.ToLower(name)}, a, nil) }

// Text returns an attribute that is a text; empty: it is none.
func (a *Ad) Text(name string) string {
	s, _ := a.Get(name).(string)
	return s
}

// Number returns an attribute that is a number; false: it is none.
func (a *Ad) Number(name string) (float64, bool) { return number(a.Get(name)) }

// Over returns a copy of a in which some attributes are others.
func (a *Ad) Over(changes map[string]Value) *Ad {
	b := &Ad{attributes: make(map[string]Expr, len(a.attributes)), open: a.open}
	for name, e := range a.attributes {
		b.attributes[name] = e
	}
	for name, v := range changes {
		b.Set(name, v)
	}
	return b
}

// unread is an expression as it is written. Most of an ad's are never looked at.
type unread string

func (u unread) expr() Expr {
	e, err := Parse(string(u))
	if err != nil {
		return literal{Unjudged{"it is written in a way that is not known here"}}
	}
	return e
}

// ParseAll reads what HTCondor's tools print with -json. No ads at all are printed as nothing.
func ParseAll(b []byte) ([]*Ad, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var raw []map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("read the ads of HTCondor: %w", err)
	}
	ads := make([]*Ad, len(raw))
	for i, r := range raw {
		ads[i] = adFrom(r)
	}
	return ads, nil
}

func adFrom(r map[string]any) *Ad {
	a := &Ad{attributes: make(map[string]Expr, len(r))}
	for name, v := range r {
		a.attributes[strings.ToLower(name)] = exprFrom(v)
	}
	return a
}

// exprFrom returns what stands in an ad's JSON. What is no plain value is written there as the text "/Expr(...)/".
func exprFrom(v any) Expr {
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
		items := make([]Expr, len(v))
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
