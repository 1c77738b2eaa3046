package outpost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// detail is the body of the protocol's plain refusals.
type detail struct {
	Detail any `json:"detail"`
}

// complaint is one fault of a request's body, as FastAPI words it. What was sent is not repeated: it may hold secrets.
type complaint struct {
	Type string   `json:"type"`
	Loc  []string `json:"loc"`
	Msg  string   `json:"msg"`
}

// failure is an error as the OutpostSpawner shows it to the user: module and class, then the arguments.
type failure struct {
	Module    string            `json:"module"`
	Class     string            `json:"class"`
	Traceback string            `json:"traceback"`
	Args      []string          `json:"args"`
	Kwargs    map[string]string `json:"kwargs"`
}

// statusFailure is the protocol's status of all that goes wrong inside. Only of this one does the Hub show the text.
const statusFailure = 419

// malformed is the error of a body that the protocol does not know.
type malformed struct {
	status int
	cause  *errs.Error
}

// Error returns the cause's text.
func (m *malformed) Error() string { return m.cause.Error() }

func badField(field, value, remedy string) error {
	return &malformed{http.StatusUnprocessableEntity, errs.Bad(field, value, remedy)}
}

// refuse answers with an error in the words of the protocol.
func (o *Outpost) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if m, ok := errors.AsType[*malformed](err); ok {
		audit.Of(r.Context()).Wrong = oneLine(m.Error())
		loc := []string{"body"}
		if m.cause.Field != "" && m.cause.Field != "body" {
			loc = append(loc, strings.Split(m.cause.Field, ".")...)
		}
		web.WriteJSON(w, m.status, detail{[]complaint{{"value_error", loc, oneLine(m.Error())}}})
		return
	}
	body := o.web.ErrorBody(r, err).Error
	text := body.Message
	if body.Remedy != "" {
		text += ": " + body.Remedy
	}
	// Users often see no more than the status: OutpostSpawner puts the words into the Hub's log.
	o.log.Info(
		"Outpost request refused", "request", web.TraceOf(r.Context()).ID, "caller", web.TraceOf(r.Context()).Caller,
		"why", oneLine(text),
	)
	switch errs.ByCode(body.Code) {
	case errs.NotFound:
		web.WriteJSON(w, http.StatusNotFound, detail{"Item not found"})
	case errs.Unavailable:
		w.Header().Set("Retry-After", "2")
		web.WriteJSON(w, http.StatusServiceUnavailable, detail{oneLine(text)})
	default:
		web.WriteJSON(w, statusFailure, failure{
			Module: "slipway.", Class: className(body.Code), Args: []string{oneLine(text)}, Kwargs: map[string]string{},
		})
	}
}

// className makes a class's name of an error's code: "over_quota" becomes "OverQuota".
func className(code string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(code, "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// lineLimit is the most bytes of a text that the Hub is to show.
const lineLimit = 400

// oneLine makes a text fit for an HTTP reason and for a page: the Hub puts it into both as it stands, and shows
// "Unknown" in place of what a reason may not hold.
func oneLine(text string) string {
	line := strings.Map(func(r rune) rune {
		switch {
		case r == '<' || r == '>':
			return '\''
		case r < ' ' || r == 0x7f:
			return ' '
		case r > '~':
			return '?'
		}
		return r
	}, text)
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > lineLimit {
		line = line[:lineLimit] + "..."
	}
	return line
}

// startBody is the body of a start. The site's own keys are many; only those that mean something here are read.
type startBody struct {
	Name        string            `json:"name"`
	Env         control.Env       `json:"env"`
	UserOptions startOptions      `json:"user_options"`
	Flavor      string            `json:"flavor"`
	Misc        startMisc         `json:"misc"`
	Certs       map[string]string `json:"certs"`
	Bundles     map[string]string `json:"internal_trust_bundles"`
}

// startOptions are the user's options. Those that a form gives are lists of one word.
type startOptions struct {
	StartID string `json:"start_id"`
	Flavor  any    `json:"flavor"`
	Profile any    `json:"profile"`
	Image   any    `json:"image"`
	CPUs    any    `json:"cpus"`
	Memory  any    `json:"memory"`
	Fresh   any    `json:"fresh"`
}

// startMisc are the overrides of a remote spawner's settings that are refused. The others have no meaning here.
type startMisc struct {
	Cmd         any `json:"cmd"`
	Args        any `json:"args"`
	InternalSSL any `json:"internal_ssl"`
}

// drainLimit is the most bytes of a body that are read only to be able to answer: a client that is still sending when
// the connection ends does not get to see why.
const drainLimit = 32 << 20

// readBody reads a request's body: one JSON object, of which fields that are not known are left out.
func readBody(w http.ResponseWriter, r *http.Request) (startBody, error) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(web.BodyTime)) // not all connections have one
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	raw, err := io.ReadAll(io.LimitReader(r.Body, web.BodyLimit+1))
	if err != nil {
		return startBody{}, &malformed{http.StatusUnprocessableEntity, errs.New(errs.Invalid, "the body ends early")}
	}
	if len(raw) > web.BodyLimit {
		_, _ = io.CopyN(io.Discard, r.Body, drainLimit)
		return startBody{}, &malformed{http.StatusRequestEntityTooLarge,
			errs.New(errs.Invalid, "the body is too large").
				With(fmt.Sprintf("at most %d MiB, options and environment together", web.BodyLimit>>20))}
	}
	return parseBody(raw)
}

func parseBody(raw []byte) (b startBody, err error) {
	if string(bytes.TrimSpace(raw)) == "null" {
		return b, badField("body", "null", "a JSON object")
	}
	err = json.Unmarshal(raw, &b)
	if err == nil {
		return b, nil
	}
	cause, ok := errors.AsType[*errs.Error](web.BadBody(err))
	if !ok {
		return b, err
	}
	return startBody{}, &malformed{http.StatusUnprocessableEntity, cause}
}
