package paramgrid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// objects returns the points of a list of objects. Their values keep their types.
func objects(path string, text []byte) entries {
	return func(yield func(entry, error) bool) {
		var all []json.RawMessage
		if err := json.Unmarshal(text, &all); err != nil || all == nil {
			yield(entry{}, notAList(path, text, err))
			return
		}
		for at, raw := range all {
			e, err := object(fmt.Sprintf("%s: point %d", path, at), raw)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// notAList says what a text is instead of a list, or where it is no JSON. A nil error is that of a null.
func notAList(path string, text []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(max(0, int(syntax.Offset)-1), len(text))
		return refuseFile(
			fmt.Sprintf("%s:%d: %v", path, 1+bytes.Count(text[:at], []byte("\n")), err), remedies[".json"],
		)
	}
	return refuseFile(path+": not a list", remedies[".json"])
}

// object reads one point.
func object(where string, raw json.RawMessage) (entry, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || len(given) == 0 {
		return entry{}, refuseFile(where+" is not an object with values", remedies[".json"])
	}
	e := entry{where: where, names: slices.Sorted(maps.Keys(given)), values: make(map[string]string, len(given))}
	for _, name := range e.names {
		value, err := written(given[name])
		if err != nil {
			return entry{}, refuseFile(where+": "+name+": "+err.Error(), "write it whole, and numbers finite")
		}
		e.values[name] = value
	}
	return e, nil
}

// written writes a value so that a job reads it with its type: a text by itself is quoted only where it would be read
// as something else.
func written(raw json.RawMessage) (string, error) {
	var value any
	if json.Unmarshal(raw, &value) != nil { // it is JSON, so only a number can be wrong
		return "", errors.New("a number is not finite")
	}
	if text, ok := value.(string); ok {
		if strings.ContainsRune(text, utf8.RuneError) && !bytes.ContainsRune(raw, utf8.RuneError) {
			return "", errors.New(`half a character: one of \ud800 to \udfff alone`)
		}
		return PlainText(text), nil
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, raw)
	return compact.String(), err
}
