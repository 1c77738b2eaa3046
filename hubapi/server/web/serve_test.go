package web

import (
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
)

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"user":1}`, `{"options":{"a":[1]}}`, `{"x":1}`, `[1]`, `{} {}`, `{"env":{"a":null}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, into := range []any{new(hubapi.SessionRequest), new(hubapi.JobRequest), new(hubapi.FreezeRequest)} {
			if err := decodeJSON(strings.NewReader(s), into); err != nil && !errs.Is(err, errs.Invalid) {
				t.Fatalf("%q: %v", s, err)
			}
		}
	})
}
