// Package secret has the type of values that must not be printed, logged or stored by accident.
package secret

import "crypto/subtle"

const mask = "[secret]"

// Text is a secret string. Every way of formatting or marshalling it gives a mask; Reveal is the one way to its value.
// It needs all three of String, GoString and MarshalText: with fewer, %#v or a nested JSON log leaks it.
type Text struct{ value string }

// New wraps s.
func New(s string) Text { return Text{s} }

// Reveal returns the value. Call it where the value leaves for its one purpose, nowhere else.
func (t Text) Reveal() string { return t.value }

// Empty reports whether there is no value.
func (t Text) Empty() bool { return t.value == "" }

// Equal compares with s in time that does not depend on where they differ.
func (t Text) Equal(s string) bool {
	return t.value != "" && subtle.ConstantTimeCompare([]byte(t.value), []byte(s)) == 1
}

// String returns a mask.
func (t Text) String() string { return mask }

// GoString returns a mask.
func (t Text) GoString() string { return mask }

// MarshalText returns a mask.
func (t Text) MarshalText() ([]byte, error) { return []byte(mask), nil }
