package outpost

import (
	"net/url"
	"strings"
	"testing"
)

func FuzzParseOutpost(f *testing.F) {
	for _, p := range []string{"/services", "/services/", "/services//id", "/services/a%2Fb/id", "/services/%zz/%zz", "/services///", "/servicesx", "/flavors/", "/ping//", ""} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, ok := parsePath(path)
		switch {
		case !ok && strings.HasPrefix(path, "/services/"):
			t.Errorf("%q is left to others", path)
		case ok && got.route == routeStart && (got.start.id == "" || !strings.HasPrefix(path, "/services/")):
			t.Errorf("%q gives %+v", path, got)
		case ok && !strings.HasPrefix(path, "/services") && len(path) > len("/usercredits/"):
			t.Errorf("%q is taken", path)
		}
		if name, rest := url.PathEscape(path), "/services/"+url.PathEscape(path)+"/id1"; ok || name != "" {
			if got, ok := parsePath(rest); !ok || got.start.id != "id1" || !got.start.names(path) {
				t.Errorf("a server named %q: %+v", path, got)
			}
		}
	})
}
