// Package errs holds the kinds of error that Slipway tells apart and the one table that joins a kind to its wire code
// and HTTP status. The Go client and the Python client read the same table (hubapi/testdata/errors.json).
//
// An error of a kind may carry what the user needs to act: the field, the value and the remedy. Errors of no kind are
// Internal: their text stays in the log.
package errs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind classifies an error by what its receiver can do about it.
type Kind int

// The kinds. Add one only together with its row in the table.
const (
	Internal     Kind = iota // a fault of Slipway or its host; details are in the log
	Invalid                  // the request is wrong; Field and Remedy say how
	Unauthorized             // nobody is known to be calling
	Forbidden                // the caller is known and may not
	NotFound                 // there is no such thing, or it is not the caller's
	Conflict                 // the thing is in a state that forbids the request
	OverQuota                // the caller's limits forbid it
	NoCapacity               // the hardware has no room now
	NoSpace                  // a disk is full
	Unavailable              // a part that is needed does not answer; worth a retry
	Missing                  // a part that is needed is not installed here; Remedy says how to install it
	TooLarge                 // the request's body is larger than any may be
	Busy                     // the caller has as many requests under way as she may; worth a retry
)

// Row is one line of the table of kinds.
type Row struct {
	Kind   Kind
	Code   string // on the wire, stable
	Status int    // HTTP
}

// Table joins every kind to its code and status.
func Table() []Row {
	return []Row{
		{Internal, "internal", 500},
		{Invalid, "invalid", 422},
		{Unauthorized, "unauthorized", 401},
		{Forbidden, "forbidden", 403},
		{NotFound, "not_found", 404},
		{Conflict, "conflict", 409},
		{OverQuota, "over_quota", 429},
		{NoCapacity, "no_capacity", 503},
		{NoSpace, "no_space", 507},
		{Unavailable, "unavailable", 503},
		{Missing, "missing", 501},
		{TooLarge, "too_large", 413},
		{Busy, "busy", 429},
	}
}

// Error is an error of a kind.
type Error struct {
	Kind    Kind
	Message string   // what was attempted on which thing, and why it cannot be
	Field   string   // the request's field at fault; empty when there is none
	Remedy  string   // what the user can do next; empty when nothing
	Err     error    // the cause; nil when there is none
	Details []Detail // the things at fault, where there are several
}

// Detail is one of several things at fault, such as a file among others.
type Detail struct {
	Path string `json:"path,omitempty"`
	Line int    `json:"line,omitempty"` // 0: none
	What string `json:"what"`
}

// String returns the path, the line and what is the matter. A path with odd characters is quoted.
func (d Detail) String() string {
	name := d.Path
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name || strings.ContainsAny(name, " ;:,") {
		name = quoted
	}
	if d.Line > 0 {
		name += fmt.Sprintf(" line %d", d.Line)
	}
	if d.Path == "" {
		return d.What
	}
	return name + ": " + d.What
}

// New makes an error of kind k; the arguments are fmt.Errorf's, so %w wraps a cause.
func New(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Bad makes the error of a wrong request: the field, its value as given, and what would be right.
func Bad(field string, value any, remedy string) *Error {
	return &Error{
		Kind: Invalid, Field: field, Message: fmt.Sprintf("%s: %q is not valid", field, fmt.Sprint(value)),
		Remedy: remedy,
	}
}

// Shorten bounds what an error repeats of a user's input.
func Shorten(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

// Over makes the error of a value that is understood, and is more than whose, such as "a job", may have at this site.
func Over(field, value, most, whose string) *Error {
	return &Error{
		Kind: Invalid, Field: field,
		Message: fmt.Sprintf("%s: %s is more than the %s that %s may have here", field, value, most, whose),
		Remedy:  "at most " + most,
	}
}

// Under makes the error of a value that is understood, and is less than whose needs.
func Under(field, value, least, whose string) *Error {
	return &Error{
		Kind: Invalid, Field: field,
		Message: fmt.Sprintf("%s: %s is less than the %s that %s needs", field, value, least, whose),
		Remedy:  "at least " + least,
	}
}

// Called returns a copy of e that calls its field by the name that its reader gave it, such as --mem in place of
// memory. Field stays.
func (e *Error) Called(name string) *Error {
	c := *e
	if rest, ok := strings.CutPrefix(e.Message, e.Field+": "); ok && e.Field != "" {
		c.Message = name + ": " + rest
	}
	return &c
}

// With returns a copy of e that tells the user what to do next.
func (e *Error) With(remedy string) *Error {
	c := *e
	c.Remedy = remedy
	return &c
}

// Naming returns a copy of e that tells the things at fault one by one.
func (e *Error) Naming(list []Detail) *Error {
	c := *e
	c.Details = list
	return &c
}

// Error returns the message, the details and, when there is one, the remedy.
func (e *Error) Error() string { return e.Message + e.rest() }

// rest is what Error adds to the message.
func (e *Error) rest() string {
	var b strings.Builder
	for i, d := range e.Details {
		b.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0] + d.String())
	}
	if e.Remedy != "" {
		b.WriteString(": " + e.Remedy)
	}
	return b.String()
}

// Brief returns err's words without the details and the remedy of its Error, for those who show these by themselves.
func Brief(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return strings.TrimSuffix(err.Error(), e.rest())
	}
	return err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost Error in err's chain, Internal when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// RowOf returns the table's row of k.
func RowOf(k Kind) Row {
	for _, r := range Table() {
		if r.Kind == k {
			return r
		}
	}
	return Table()[0]
}

// Passing reports whether err says that the same may succeed in a moment.
func Passing(err error) bool { return Is(err, Unavailable) || Is(err, Busy) }

// ByCode returns the kind of a wire code, Internal when the code is unknown.
func ByCode(code string) Kind {
	for _, r := range Table() {
		if r.Code == code {
			return r.Kind
		}
	}
	return Internal
}
