package config

import (
	"strings"
	"testing"
)

func TestStorageElements(t *testing.T) {
	for _, c := range []struct{ text, field string }{
		{`{name: eos, origin: "root://eos.example.org:1094", path: /eos/x, cache: "root://cache.example.org", mount: true, write: true}`, ""},
		{`{name: eos, origin: "roots://[2001:db8::1]:1094", path: /}`, ""},
		{`{name: EOS, origin: "root://a", path: /x}`, "data.storage[0].name"},
		{`{name: .., origin: "root://a", path: /x}`, "data.storage[0].name"},
		{`{name: eos.cached, origin: "root://a", path: /x}`, "data.storage[0].name"},
		{`{name: eos, origin: "https://a", path: /x}`, "data.storage[0].origin"},
		{`{name: eos, origin: "root://bob@a", path: /x}`, "data.storage[0].origin"},
		{`{name: eos, origin: "root://a//x", path: /x}`, "data.storage[0].origin"},
		{`{name: eos, origin: "root://a", path: /x, cache: "root://a"}`, "data.storage[0].cache"},
		{`{name: eos, origin: "root://a", path: /x, cache: "root:///x"}`, "data.storage[0].cache"},
		{`{name: eos, origin: "root://a", path: x}`, "data.storage[0].path"},
		{`{name: eos, origin: "root://a", path: /x/../y}`, "data.storage[0].path"},
		{`{name: eos, origin: "root://a", path: "/x?authz=a"}`, "data.storage[0].path"},
		{`{name: eos, origin: "root://a", path: "/x,rw"}`, "data.storage[0].path"},
		{`{name: eos, origin: "root://a,rw", path: /x}`, "data.storage[0].origin"},
		{`{name: eos, origin: "root://a", path: /x, cache: "root://b,rw"}`, "data.storage[0].cache"},
		{`{name: eos, origin: "root://a", path: /x}, {name: eos, origin: "root://b", path: /x}`, "data.storage[1].name"},
		{`{name: eos, origin: "root://a", path: /x}, {name: other, origin: "root://a", path: /x}`, "data.storage[1].path"},
	} {
		cfg, err := Parse([]byte("data: {storage: [" + c.text + "]}"))
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		var p problems
		cfg.checkStorage(&p)
		switch {
		case c.field == "" && len(p) > 0:
			t.Errorf("%s: %v", c.text, p)
		case c.field != "" && (len(p) == 0 || !strings.Contains(p[0].Error(), c.field)):
			t.Errorf("%s: want a problem of %s, have %v", c.text, c.field, p)
		}
	}
}
