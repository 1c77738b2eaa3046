package hub

import (
	"net/http"
	"testing"

	"slipway/internal/errs"
)

func TestAuthState(t *testing.T) {
	for name, tc := range map[string]struct {
		answer, key, want string
		kind              errs.Kind
	}{
		"flat":           {`{"name":"alice","auth_state":{"refresh_token":"r"}}`, "refresh_token", "r", 0},
		"deep":           {`{"name":"alice","auth_state":{"token_response":{"refresh_token":"r"}}}`, "token_response.refresh_token", "r", 0},
		"key with a dot": {`{"name":"alice","auth_state":{"a.b":"r"}}`, "a.b", "r", 0},
		"a number":       {`{"name":"alice","auth_state":{"ldap":{"uidNumber":1001}}}`, "ldap.uidNumber", "1001", 0},
		"no such key":    {`{"name":"alice","auth_state":{"x":"r"}}`, "refresh_token", "", 0},
		"no text":        {`{"name":"alice","auth_state":{"refresh_token":{"x":1}}}`, "refresh_token", "", 0},
		"none kept":      {`{"name":"alice","auth_state":null}`, "refresh_token", "", 0},
		"empty":          {`{"name":"alice","auth_state":{}}`, "refresh_token", "", 0},
		"no scope":       {`{"name":"alice","kind":"user"}`, "refresh_token", "", errs.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c := serviceOf(t, func(w http.ResponseWriter, _ *http.Request) {
				if _, err := w.Write([]byte(tc.answer)); err != nil {
					t.Error(err)
				}
			})
			got, err := c.AuthState(t.Context(), "alice", tc.key)
			if got.Reveal() != tc.want || (err != nil) != (tc.kind != 0) || err != nil && !errs.Is(err, tc.kind) {
				t.Errorf("%q, %v", got.Reveal(), err)
			}
		})
	}
}
