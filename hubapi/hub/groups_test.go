package hub

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func TestGroups(t *testing.T) {
	const all = `{"kind":"service","scopes":["list:groups","read:groups"]}`
	for name, tc := range map[string]struct {
		scopes, groups string
		want           []Group
		kind           errs.Kind
	}{
		"members":       {all, `[{"kind":"group","name":"higgs","users":["alice","has@"]},{"name":"empty","users":[]}]`, []Group{{"higgs", []string{"alice", "has@"}}, {"empty", []string{}}}, 0},
		"none":          {all, `[]`, nil, 0},
		"names alone":   {all, `[{"name":"higgs"}]`, nil, errs.Forbidden},
		"some groups":   {`{"kind":"service","scopes":["list:groups!group=higgs","read:groups"]}`, `[]`, nil, errs.Forbidden},
		"no scope":      {`{"kind":"service","scopes":["list:users"]}`, `[]`, nil, errs.Forbidden},
		"no list":       {all, `{}`, nil, errs.Unavailable},
		"another shape": {all, `[{"name":"higgs","users":"alice"}]`, nil, errs.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
				text := tc.scopes
				if strings.HasSuffix(r.URL.Path, "/groups") {
					text = `{"items":` + tc.groups + `,"_pagination":{"next":null}}`
				}
				if _, err := w.Write([]byte(text)); err != nil {
					t.Error(err)
				}
			})
			got, err := c.Groups(t.Context())
			if d := cmp.Diff(tc.want, got); d != "" || (err != nil) != (tc.kind != 0) || err != nil && !errs.Is(err, tc.kind) {
				t.Errorf("%v %s", err, d)
			}
		})
	}
}
