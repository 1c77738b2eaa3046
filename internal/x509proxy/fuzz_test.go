package x509proxy

import (
	"strings"
	"testing"
)

func FuzzCheck(f *testing.F) {
	root := newAuthority(f, nil, "Root")
	alice, server := newPerson(f, root, "Alice"), newPerson(f, root, "voms.example.org")
	c := newPlace(f, root).checker(f, nil)
	f.Add(proxyOf(f, alice, nil).file(f))
	f.Add(proxyOf(f, proxyOf(f, alice, with(f, says(server, alice))), nil).file(f))
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := check(c, text)
		if err != nil {
			return
		}
		again, err := check(c, p.Text.Reveal())
		if err != nil || again.Text != p.Text {
			t.Errorf("what is written of a good proxy is not good: %v", err)
		}
	})
}

func FuzzAttributes(f *testing.F) {
	root := newAuthority(f, nil, "Root")
	alice, server := newPerson(f, root, "Alice"), newPerson(f, root, "voms.example.org")
	f.Add(says(server, alice).extension(f).Value)
	f.Fuzz(func(t *testing.T, der []byte) {
		all, ok := readAttributes(der)
		for _, a := range all {
			if ok && (a.vo == "" || strings.ContainsAny(a.vo, "/\x00") || len(a.fqans) == 0) {
				t.Errorf("%+v", a)
			}
			a.of(alice.cert)
			_ = directoryName(a.issuer)
		}
	})
}

func FuzzInfo(f *testing.F) {
	f.Add(infoOf(inheritAll, 3, []byte("x")).Value)
	f.Fuzz(func(t *testing.T, der []byte) {
		if in, ok := readInfo(der); ok && (in.path < -1 || in.language == "") {
			t.Errorf("%+v", in)
		}
	})
}

func FuzzPolicies(f *testing.F) {
	f.Add("access_id_CA X509 '/C=XX/O=Grid/CN=Root'\npos_rights globus CA:sign\ncond_subjects globus '\"/C=XX/*\"'\n", "/C=XX/CN=a")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, p := range readPolicies([]byte(text)) {
			p.permits(name)
		}
	})
}

func FuzzServers(f *testing.F) {
	root := newAuthority(f, nil, "Root")
	server := newPerson(f, root, "voms.example.org")
	f.Add(goodLines)
	f.Fuzz(func(t *testing.T, text string) {
		if lists(text, append(server.above[:0:0], server.cert, root.cert)) && !strings.Contains(text, "voms.example.org") {
			t.Errorf("%q names the server", text)
		}
	})
}
