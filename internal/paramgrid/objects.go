package paramgrid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// objects returns the points of a list of objects. Their values keep their types.
func objects(path string, text []byte) entries {
	return func(yield func(entry, error) bool) {
		if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
			yield(entry{}, refuseText(path, text, err))
			return
		}
		r := &values{decoder: json.NewDecoder(bytes.NewReader(text))}
		r.odd = bytes.Contains(text, []byte("\ufffd")) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`))
		r.decoder.UseNumber()
		if first, _ := r.decoder.Token(); first != json.Delim('[') {
			yield(entry{}, refuseFile(path+": not a list", remedies[".json"]))
			return
		}
		for at := 0; r.decoder.More(); at++ {
			e, err := r.point(fmt.Sprintf("%s: point %d", path, at))
			if r.err != nil {
				err = refuseFile(path+": "+r.err.Error(), r.remedy)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// refuseText says where a text is no JSON.
func refuseText(path string, text []byte, err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || strings.Contains(err.Error(), "depth") {
		return refuseFile(path+": a value is nested too deeply", remedies[".json"])
	}
	at := max(0, int(syntax.Offset)-1)
	for _, odd := range []string{"NaN", "Infinity"} {
		if bytes.HasPrefix(text[min(at, len(text)):], []byte(odd)) {
			return refuseFile(path+": "+odd+" is no finite number", "write a finite number, or null")
		}
	}
	line := 1 + bytes.Count(text[:min(at, len(text))], []byte("\n"))
	return refuseFile(fmt.Sprintf("%s:%d: %v", path, line, err), remedies[".json"])
}

// values writes what a decoder reads as Python's repr does.
type values struct {
	decoder *json.Decoder
	odd     bool // the text has the character that stands for what is none
	depth   int
	err     error
	remedy  string
}

// nesting is how deep a value may nest.
const nesting = 100

func (r *values) fail(what, remedy string) string {
	if r.err == nil {
		r.err, r.remedy = errors.New(what), remedy
	}
	return ""
}

// token returns the next token. The text was looked at as a whole: there is one.
func (r *values) token() json.Token {
	token, err := r.decoder.Token()
	if err != nil {
		r.fail(err.Error(), remedies[".json"])
	}
	if s, ok := token.(string); ok && !r.odd && strings.ContainsRune(s, utf8.RuneError) {
		r.fail(`half a character: one of \ud800 to \udfff alone`, "write it whole")
	}
	return token
}

// point reads one object.
func (r *values) point(where string) (entry, error) {
	e := entry{where: where, values: map[string]string{}}
	if first := r.token(); first != json.Delim('{') {
		return e, refuseFile(where+" is not an object with values", remedies[".json"])
	}
	for r.more() {
		name, _ := r.token().(string)
		if _, twice := e.values[name]; !twice {
			e.names = append(e.names, name)
		}
		e.values[name] = r.value(true)
	}
	r.token()
	if len(e.names) == 0 {
		return e, refuseFile(where+" is not an object with values", remedies[".json"])
	}
	return e, nil
}

// value writes the next value; a text by itself is quoted only where it would not be read as text.
func (r *values) value(alone bool) string {
	if r.depth++; r.depth > nesting {
		return r.fail("a value is nested too deeply", remedies[".json"])
	}
	defer func() { r.depth-- }()
	switch token := r.token().(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[token]
	case string:
		if alone {
			return PlainText(token)
		}
		return quoted(token)
	case json.Number:
		return r.number(string(token))
	case json.Delim:
		if token == '[' {
			return r.list()
		}
		return r.dict()
	}
	return ""
}

// more says whether there is more to read in a list or dict: not behind what is wrong.
func (r *values) more() bool { return r.err == nil && r.decoder.More() }

func (r *values) list() string {
	var all []string
	for r.more() {
		all = append(all, r.value(false))
	}
	r.token()
	return "[" + strings.Join(all, ", ") + "]"
}

func (r *values) dict() string {
	var names []string
	written := map[string]string{}
	for r.more() {
		name, _ := r.token().(string)
		if _, twice := written[name]; !twice {
			names = append(names, name)
		}
		written[name] = r.value(false)
	}
	r.token()
	for i, name := range names {
		names[i] = quoted(name) + ": " + written[name]
	}
	return "{" + strings.Join(names, ", ") + "}"
}

func (r *values) number(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > 4300 {
			return r.fail("a value has too many digits", remedies[".json"])
		}
		if text == "-0" {
			return "0"
		}
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return r.fail(text+" is no finite number", "write a finite number, or null")
	}
	return writeFloat(f)
}
