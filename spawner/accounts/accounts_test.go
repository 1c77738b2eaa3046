package accounts

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/spawner"
)

func alice() spawner.Account {
	return spawner.Account{Login: "u20001", UID: 20001, GID: 100, Home: "/home/alice"}
}

func TestWithLine(t *testing.T) {
	const image = "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\r\n\nalice:x:7:7::/:/bin/false"
	got := string(withLine([]byte(image), "alice:x:1000:1000::/home/alice:/bin/bash"))
	want := "alice:x:1000:1000::/home/alice:/bin/bash\nroot:x:0:0:root:/root:/bin/sh\nalice:x:7:7::/:/bin/false\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := string(withLine(nil, "a:x:5:")); got != "a:x:5:\n" {
		t.Errorf("withLine(nothing) = %q", got)
	}
}

func FuzzWithLine(f *testing.F) {
	f.Add([]byte("root:x:0:0::/:/bin/sh\n"))
	f.Add([]byte("::\n\n:::::\r\nx"))
	f.Fuzz(func(t *testing.T, file []byte) {
		const line = "alice:x:1000:1000::/home/alice:/bin/sh"
		got := string(withLine(file, line))
		first, _, _ := strings.Cut(got, "\n")
		if first != line {
			t.Errorf("first line %q", first)
		}
		for _, l := range strings.Split(got, "\n")[1:] {
			if field(l, 2) == "1000" {
				t.Errorf("another line has the id: %q", l)
			}
		}
	})
}

func TestOfImage(t *testing.T) {
	a := alice()
	a.Groups = []spawner.Group{{Name: "atlas", ID: 900}, {Name: "cms", ID: 901}}
	users, groups := OfImage(a, []byte("root:x:0:0::/root:/bin/sh\n"), []byte("root:x:0:\nusers:x:100:\nold:x:901:\n"), "/bin/bash")
	if got, want := string(users), "u20001:x:20001:100::/home/alice:/bin/bash\nroot:x:0:0::/root:/bin/sh\n"; got != want {
		t.Errorf("users %q, want %q", got, want)
	}
	want := "u20001:x:100:\natlas:x:900:u20001\ncms:x:901:u20001\nroot:x:0:\n"
	if got := string(groups); got != want {
		t.Errorf("groups %q, want %q", got, want)
	}
}

func TestOfHost(t *testing.T) {
	a := alice()
	users := "root:x:0:0:root:/root:/bin/bash\nu20001:x:7:7::/elsewhere:/bin/sh\nother:x:20001:7::/o:/bin/sh\nlast:x:9:9::/l:/bin/sh"
	want := "u20001:x:20001:100::/home/alice:/bin/sh\nroot:x:0:0:root:/root:/bin/bash\nlast:x:9:9::/l:/bin/sh\n"
	if diff := cmp.Diff(want, string(UsersOfHost(a, []byte(users)))); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	known := "root:x:0:\nusers:x:100:\n"
	if got := string(GroupsOfHost(a, []byte(known))); got != known {
		t.Errorf("groups = %q, want the host's", got)
	}
	a.GID = 333
	if got, want := string(GroupsOfHost(a, []byte(known))), "u20001:x:333:\n"+known; got != want {
		t.Errorf("groups = %q, want %q", got, want)
	}
}

func FuzzUsersOfHost(f *testing.F) {
	f.Add([]byte("root:x:0:0::/:/bin/sh\nx\n::\n"))
	f.Fuzz(func(t *testing.T, host []byte) {
		got := UsersOfHost(alice(), host)
		if n := bytes.Count(append([]byte("\n"), got...), []byte("\nu20001:")); n != 1 {
			t.Errorf("UsersOfHost(%q) has %d lines of the account", host, n)
		}
	})
}
