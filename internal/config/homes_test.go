package config

import (
	"strings"
	"testing"
)

func TestHomesAndAreas(t *testing.T) {
	tests := []struct{ text, want string }{
		{"listen: x", ""},
		{"users: {home: {path: '/nfs/{initial}/{name}', create: false}}", ""},
		{"users: {home: {path: /nfs/home}}", "users.home.path"},
		{"users: {home: {path: '/nfs/{user}'}}", "users.home.path"},
		{"users: {home: {path: '/nfs/{initial}'}}", "users.home.path"},
		{"users: {home: {path: '/nfs/{realm}'}}", "users.home.path"},
		{realms("site", "lab") + "users: {home: {path: '/nfs/{name}'}}", "users.home.path"},
		{realms("site", "lab") + "users: {home: {path: '/nfs/{login}'}}", "users.home.path"},
		{realms("site", "lab") + "users: {home: {path: '/nfs/{realm}/{login}'}}", ""},
		{realms("site", "lab") + "users: {home: {path: '/nfs/{uid}'}}", ""},
		{realms("site", "''") + "users: {home: {path: '/nfs/{name}'}}", ""},
		{realms("site", "lab") + "data: {areas: [{name: a, path: '/data/{name}', inside: /a}]}", "areas[0].path"},
		{realms("site", "lab") + "data: {areas: [{name: a, path: '/data/{realm}/{name}', inside: /a}, {name: b, path: '/group/{realm}', inside: /b}]}", ""},
		{"users: {home: {path: '/nfs/../{name}'}}", "users.home.path"},
		{"users: {home: {path: 'nfs/{name}'}}", "users.home.path"},
		{"data: {areas: [{name: scratch, path: '/data/{name}', inside: /scratch, write: true, create: true}, {name: common, path: /srv/common}]}", ""},
		{"data: {areas: [{name: home, path: /srv/x}]}", "areas[0].name"},
		{"data: {areas: [{name: a, path: /srv/x}, {name: a, path: /srv/y}]}", "areas[1].name"},
		{"data: {areas: [{name: a/b, path: /srv/x}]}", "areas[0].name"},
		{"data: {areas: [{name: a, path: srv}]}", "areas[0].path"},
		{"data: {areas: [{name: a, path: /srv/x, create: true}]}", "areas[0].create"},
		{"data: {areas: [{name: a, path: '/srv/{realm}', inside: /x, create: true}]}", "areas[0].create"},
		{"data: {areas: [{name: a, path: '/data/{name}'}]}", "areas[0].inside"},
		{"data: {areas: [{name: a, path: /srv/x, inside: /usr}]}", "areas[0].inside"},
		{"data: {areas: [{name: a, path: /srv/x, inside: /home/alice/x}]}", "areas[0].inside"},
		{"data: {areas: [{name: a, path: /srv/x, inside: '/x:y'}]}", "areas[0].inside"},
		{"data: {areas: [{name: a, path: /srv/x}, {name: b, path: /srv/y, inside: /srv/x/y}]}", "areas[1].inside"},
		{"data: {areas: [{name: a, path: /srv/x, allowed_groups: [none]}]}", "areas[0].allowed_groups"},
	}
	for _, test := range tests {
		c, err := Parse([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var p problems
		c.checkHomes(&p)
		c.checkAreas(&p)
		switch {
		case test.want == "" && len(p) > 0:
			t.Errorf("%s: %v", test.text, p)
		case test.want != "" && (len(p) != 1 || !strings.Contains(p[0].Error(), test.want)):
			t.Errorf("%s: %v, want one that names %s", test.text, p, test.want)
		}
	}
}

// realms returns the configuration of two hubs.
func realms(one, other string) string {
	return "hubs: [{name: one, realm: " + one + "}, {name: two, realm: " + other + "}]\n"
}
