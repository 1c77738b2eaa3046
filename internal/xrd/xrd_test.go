package xrd

import (
	"strings"
	"testing"

	"slipway/internal/errs"
)

func site() *Storage {
	return New(Config{Elements: []Element{
		{Name: "eos", Origin: "root://eos.example.org:1094", Path: "/eos/exp", Cache: "root://cache.example.org:1095", Write: true},
		{Name: "user", Origin: "root://eos.example.org:1094", Path: "/eos/exp/user", Write: true},
		{Name: "tape", Origin: "roots://tape.example.org", Path: "/", Write: false},
		{Name: "other", Origin: "root://other.example.org", Path: "/eos/exp"},
	}})
}

func TestNamesBecomeURLs(t *testing.T) {
	const eos, cache = "root://eos.example.org:1094", "root://cache.example.org:1095"
	for _, c := range []struct {
		name string
		use  Use
		url  string
	}{
		{"eos:run/a.root", Use{}, cache + "//eos/exp/run/a.root"},
		{"eos:/run/a.root", Use{Write: true}, eos + "//eos/exp/run/a.root"},
		{"eos:run/a.root", Use{Direct: true}, eos + "//eos/exp/run/a.root"},
		{"eos:", Use{}, cache + "//eos/exp"},
		{"eos:dir/", Use{}, cache + "//eos/exp/dir"},
		{"/storage/eos/run/a b.root", Use{}, cache + "//eos/exp/run/a b.root"},
		{"/storage/eos.cached/run/a.root", Use{Write: true}, eos + "//eos/exp/run/a.root"},
		{"/eos/exp/user/x", Use{}, eos + "//eos/exp/user/x"},
		{"/tmp/x", Use{}, "roots://tape.example.org//tmp/x"},
		{cache + "//eos/exp/a", Use{Write: true}, eos + "//eos/exp/a"},
		{eos + "//eos/exp/a", Use{}, cache + "//eos/exp/a"},
		{eos + "//eos/exp/user/a", Use{}, eos + "//eos/exp/user/a"},
		{"eos:..hidden/%2e%2e", Use{}, cache + "//eos/exp/..hidden/%2e%2e"},
	} {
		s := site()
		s.note(cache, nil)
		p, err := s.URL(c.name, c.use)
		if err != nil || p.URL != c.url || !strings.HasPrefix(p.Origin, "root") || p.Cached != strings.HasPrefix(p.URL, cache) {
			t.Errorf("%s %+v: %+v, %v; want %s", c.name, c.use, p, err, c.url)
		}
	}
}

func TestNamesThatHideSomethingAreRefused(t *testing.T) {
	for name, words := range map[string]string{
		"":                                 "name a file",
		"run/a.root":                       "begin with a slash",
		"eos:../user/a":                    "leave out //",
		"eos:a/../../b":                    "leave out //",
		"eos:a//b":                         "leave out //",
		"eos://a":                          "at no storage element",
		"eos:a/.":                          "leave out //",
		"/eos/exp/../x":                    "leave out //",
		"/storage/eos/../../x":             "leave out //",
		"/storage/../eos":                  "no storage element ..",
		"nowhere:a":                        "no storage element nowhere",
		"eos:a?authz=eyJhbGciOi":           "question mark",
		"eos:a\nb":                         "control characters",
		"eos:a#b":                          "control characters",
		"eos:a\xff":                        "UTF-8",
		"eos:" + strings.Repeat("a", 1100): "1024",
		"/eos/exp/a":                       "say eos:a or other:a",
		"root://evil@eos.example.org:1094//eos/exp/a": "at no storage element",
		"https://eos.example.org/x":                   "at no storage element",
		"root://eos.example.org:1094//eos/other":      "at no storage element",
	} {
		_, err := site().URL(name, Use{})
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "eyJ") || strings.Contains(err.Error(), "lfn") {
			t.Errorf("%q: %v; want %q", name, err, words)
		}
	}
}

func TestNothingIsWrittenWhereNobodyMay(t *testing.T) {
	if _, err := site().URL("tape:x", Use{Write: true}); !errs.Is(err, errs.Forbidden) {
		t.Error(err)
	}
}

func TestReadersGoToOriginWithoutCache(t *testing.T) {
	s := site()
	for _, state := range []error{nil, errs.New(errs.Unavailable, "it is down")} {
		if state != nil {
			s.note("root://cache.example.org:1095", nil)
			s.note("root://cache.example.org:1095", state)
		}
		p, err := s.URL("eos:a", Use{})
		if err != nil || p.Cached || p.URL != p.Origin || !strings.Contains(p.Why, "the cache does not answer") {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, seed := range []string{"eos:a/b", "/storage/eos/a", "/eos/exp/user/../x", "root://eos.example.org:1094//eos/exp/a", "eos:a?b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s := site()
		p, err := s.URL(name, Use{})
		if err != nil {
			return
		}
		for _, e := range s.Elements() {
			if e.Name == p.Element && (!below(p.Path, e.Path) || p.URL != e.Origin+"/"+p.Path) {
				t.Errorf("%q: %+v is outside of %+v", name, p, e)
			}
		}
		if strings.ContainsAny(p.URL, "?#\n") || strings.Contains(p.Path+"/", "/../") || strings.Contains(p.Path, "//") {
			t.Errorf("%q: %+v", name, p)
		}
	})
}
