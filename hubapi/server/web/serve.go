package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// None is the request or answer of a route that has none.
type None struct{}

// What is borne of a request's body, unless it is a file that is streamed.
const (
	BodyLimit = 1 << 20
	BodyTime  = 2 * time.Minute
)

// Endpoint is a handler of JSON that knows what it takes and what it answers: the document of the API is made of that.
type Endpoint struct {
	http.HandlerFunc
	Status            int // of success
	Request, Response reflect.Type
}

// GetOnly refuses HEAD, as the function of that name does.
func (e Endpoint) GetOnly() Endpoint {
	e.HandlerFunc = GetOnly(e.HandlerFunc)
	return e
}

// Serve makes a handler of a function from a request to an answer, both JSON. None stands for no body.
func Serve[Req, Resp any](s *Core, status int, do func(r *http.Request, req Req) (Resp, error)) Endpoint {
	return Endpoint{Status: status, Request: reflect.TypeFor[Req](), Response: reflect.TypeFor[Resp](), HandlerFunc: func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if _, empty := any(req).(None); !empty {
			if err := Decode(w, r, &req); err != nil {
				s.Refuse(w, r, err)
				return
			}
		}
		resp, err := do(r, req)
		if err != nil {
			s.Refuse(w, r, err)
			return
		}
		WriteJSON(w, status, resp)
	}}
}

// Plain makes a handler of a function that writes its own answer. It returns an error only if it has written nothing.
func (s *Core) Plain(do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			s.Refuse(w, r, err)
		}
	}
}

func WriteJSON(w http.ResponseWriter, status int, body any) {
	if _, empty := body.(None); empty {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader has gone: nobody is left to tell
}

// Decode reads a request's body strictly: one JSON object with known fields of the right types, and nothing behind it.
func Decode(w http.ResponseWriter, r *http.Request, into any) error {
	if r.ContentLength > BodyLimit {
		return tooLarge(BodyLimit)
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(BodyTime)) // not all connections have one
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	return decodeJSON(http.MaxBytesReader(w, r.Body, BodyLimit), into)
}

func decodeJSON(body io.Reader, into any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return BadBody(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errs.New(errs.Invalid, "something follows the JSON object in the body").With("send one object")
	}
	return nil
}

// BadBody says what is wrong with a body in the words of the API.
func BadBody(err error) error {
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(big.Limit)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "body"
		}
		return errs.Bad(field, wrong.Value, "a "+jsonName(wrong.Type.Kind().String()))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(name); err == nil {
			return &errs.Error{
				Kind: errs.Invalid, Field: name, Message: fmt.Sprintf("%.80q: there is no such field", name),
				Remedy: "leave it out",
			}
		}
	}
	return errs.New(errs.Invalid, "the body is not the JSON that this route takes: %w", err).
		With("send one JSON object")
}

func tooLarge(limit int64) error {
	return &errs.Error{
		Kind: errs.TooLarge, Field: "body",
		Message: fmt.Sprintf("body: it is larger than the %d MiB that a request may have", limit>>20),
		Remedy:  "put a job's files with PUT " + hubapi.Base + "/blobs/{digest} first, and name them in blobs; points of a scan likewise, in points_blob",
	}
}

// jsonName returns JSON's word for a kind of Go's.
func jsonName(kind string) string {
	switch kind {
	case "struct", "map":
		return "JSON object"
	case "slice", "array":
		return "list"
	case "int", "int64", "float64":
		return "number"
	default:
		return kind
	}
}

// Param returns a word of the path, unescaped. The router splits the escaped path when the two differ.
func Param(r *http.Request, name string) (string, error) {
	v := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return v, nil
	}
	u, err := url.PathUnescape(v)
	if err != nil {
		return "", errs.Bad(name, v, "a URL-escaped word")
	}
	return u, nil
}

// whole reads a whole number of a query; otherwise is what an absent one means.
func WholeNumber(r *http.Request, name string, otherwise, most int64) (int64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, errs.Bad(name, v, fmt.Sprintf("a whole number from 0 to %d", most))
	}
	return n, nil
}

// AsText says that what follows is text and no page, whatever it holds.
func AsText(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
}
