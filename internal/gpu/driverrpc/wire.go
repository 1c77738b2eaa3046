// Package driverrpc speaks to a gpu.Driver in another process: Serve is the side of the helper program, Client that of
// the service.
//
// It promises that whatever the helper does - it dies, hangs, writes garbage, is missing - costs no more than an error
// of the calls under way, and that a new helper is started for later ones. The errors of package gpu keep what they are
// on the way. Calls run at once, each with the caller's deadline. The helper ends with the service: at the end of its
// input, or by a signal when the service is killed. It must not know which driver is behind it, nor who leases what.
//
// The protocol is lines of JSON: the helper says once that it is there, then one answer for each request, in any order.
package driverrpc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// protocol is what both sides must be of: they are installed together.
const protocol = 1

// The longest lines that are read. An answer is long with many GPUs, profiles and processes.
const (
	longestRequest = 64 << 10
	longestAnswer  = 8 << 20
)

// The methods, by the driver's.
const (
	methodSystem    = "system"
	methodDevices   = "devices"
	methodInstances = "instances"
	methodCreate    = "create"
	methodDestroy   = "destroy"
	methodMIG       = "mig"
	methodExclusive = "exclusive"
	methodHealth    = "health"
	methodRead      = "read"
	methodLimit     = "limit"
	methodCancel    = "cancel" // of the request with the same number, which is answered all the same
)

// request is what the service asks.
type request struct {
	ID        uint64        `json:"id"`
	Method    string        `json:"method"`
	Left      int64         `json:"left,omitempty"` // ms until the caller gives up; 0: never
	UUID      string        `json:"uuid,omitempty"`
	Profile   string        `json:"profile,omitempty"`
	Placement gpu.Placement `json:"placement,omitzero"`
	GI        int           `json:"gi,omitempty"`
	On        bool          `json:"on,omitempty"`
	Cgroup    string        `json:"cgroup,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"`
}

// answer is what the helper says. The one with number 0 is the first: that it is there, or why it cannot serve.
type answer struct {
	ID       uint64          `json:"id"`
	Protocol int             `json:"protocol,omitempty"` // the first one's
	Result   json.RawMessage `json:"result,omitempty"`
	Fault    *fault          `json:"fault,omitempty"`
}

// fault is an error on its way.
type fault struct {
	Text   string `json:"text"`
	Kind   string `json:"kind,omitempty"`   // one of kinds
	Code   string `json:"code,omitempty"`   // of package errs
	Remedy string `json:"remedy,omitempty"` // of package errs
}

// kind joins an error to its name on the wire.
type kind struct {
	name string
	err  error
}

func kinds() []kind {
	return []kind{
		{"no_driver", gpu.ErrNoDriver},
		{"not_supported", gpu.ErrNotSupported},
		{"in_use", gpu.ErrInUse},
		{"no_room", gpu.ErrNoRoom},
		{"lost", gpu.ErrLost},
		{"not_found", gpu.ErrNotFound},
		{"pending", gpu.ErrPending},
		{"denied", gpu.ErrDenied},
		{"deadline", context.DeadlineExceeded},
		{"canceled", context.Canceled},
	}
}

// pack makes an error ready to travel.
func pack(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	if i := slices.IndexFunc(kinds(), func(k kind) bool { return errors.Is(err, k.err) }); i >= 0 {
		f.Kind = kinds()[i].name
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		f.Code, f.Remedy = errs.RowOf(e.Kind).Code, e.Remedy
	}
	return f
}

// unpack makes an error again of one that has travelled.
func (f *fault) unpack() error {
	remote := &remoteError{text: f.Text}
	if i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == f.Kind }); i >= 0 {
		remote.kind = kinds()[i].err
	}
	if f.Code == "" {
		return remote
	}
	return &errs.Error{Kind: errs.ByCode(f.Code), Message: cutRemedy(f), Remedy: f.Remedy, Err: remote}
}

// cutRemedy returns the text without the remedy at its end, which errs.Error adds again.
func cutRemedy(f *fault) string {
	if f.Remedy == "" {
		return f.Text
	}
	return strings.TrimSuffix(f.Text, ": "+f.Remedy)
}

// remoteError is an error of the helper: its whole text, and what it is.
type remoteError struct {
	text string
	kind error
}

// Error returns the text as the helper has it.
func (e *remoteError) Error() string { return e.text }

// Unwrap gives what the error is; nil when that has no name.
func (e *remoteError) Unwrap() error { return e.kind }
