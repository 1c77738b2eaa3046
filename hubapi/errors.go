package hubapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"slipway/internal/errs"
)

// ErrorBody is the body of every answer that is not a success.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is an error as its receiver needs it.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Details are the things at fault one by one, such as the files with secrets for which a freeze was refused.
	Details []errs.Detail `json:"details,omitempty"`
}

// Err gives the error of the body's kind.
func (b ErrorBody) Err() error {
	d := b.Error
	return &errs.Error{
		Kind: errs.ByCode(d.Code), Message: d.Message, Field: d.Field, Remedy: d.Remedy, Details: d.Details,
	}
}

// fault is the body of the gateway to kernels, in the form that Jupyter's clients show.
type fault struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// notOurs ends the message of an answer that Slipway has not written.
const notOurs = "and not from Slipway"

// decodeError makes an error of a refusal. A body that is not ours (a proxy's page) is judged by its status.
func decodeError(status int, body []byte) error {
	var b ErrorBody
	if json.Unmarshal(body, &b) == nil && b.Error.Code != "" {
		return b.Err()
	}
	kind := kindOfStatus(status)
	var f fault
	if json.Unmarshal(body, &f) == nil && f.Reason != "" && f.Message != "" {
		return errs.New(kind, "%s", f.Message)
	}
	e := errs.New(kind, "the answer is %d %s, %s", status, http.StatusText(status), notOurs)
	if kind == errs.Unavailable {
		return notReached{e.With("try again in a moment")}
	}
	return notReached{e.With("check that the URL is that of a Slipway service")}
}

func kindOfStatus(status int) errs.Kind {
	switch status {
	case http.StatusBadRequest:
		return errs.Invalid
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return errs.Unavailable
	}
	for _, r := range errs.Table() {
		if r.Status == status {
			return r.Kind
		}
	}
	return errs.Internal
}

// garbled is the error of an answer that cannot be read: it was cut off, or is another's.
func garbled(what string, err error) error {
	return notReached{fmt.Errorf("%s: read the answer: %w", what, err)}
}
