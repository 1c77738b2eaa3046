package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func FuzzConfinedCookie(f *testing.F) {
	for _, line := range []string{"a=1; Path=/", "a=1;path=/user/alice/x", "a;domain=x", "a=1; path=/user/alice/%2e%2e/", ";;=;path"} {
		f.Add(line, "/user/alice/a/b")
	}
	f.Fuzz(func(t *testing.T, line, asked string) {
		kept, ok := target{prefix: "/user/alice/"}.confined(line, "/user/alice/"+asked)
		if !ok {
			return
		}
		res := http.Response{Header: http.Header{"Set-Cookie": {kept}}}
		for _, c := range res.Cookies() { // as another reader of such lines sees it
			if plain, err := url.PathUnescape(c.Path); err != nil || c.Domain != "" || !strings.HasPrefix(plain+"/", "/user/alice/") {
				t.Errorf("%q became %q", line, kept)
			}
		}
	})
}
