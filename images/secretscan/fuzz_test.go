package secretscan

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// FuzzLook gives every parser any bytes, under names that choose one.
func FuzzLook(f *testing.F) {
	for name, c := range anywhere() {
		f.Add("/opt/"+name, []byte(c.text))
	}
	f.Add("/opt/x.keytab", []byte(kerberosKeytab(true)))
	f.Add("/opt/x", []byte(ticketCache(4)))
	f.Add("/opt/x.p12", []byte(pkcs12()))
	f.Add("/opt/.netrc", []byte("machine a login b password c # x\nmacdef y\n\n"))
	for _, r := range nameRules() {
		f.Add(r.in+strings.NewReplacer("*", "a", "?", "b").Replace(r.base), []byte("password = a:b:c:d:e\n"))
	}
	s := newScanner(f)
	f.Fuzz(func(t *testing.T, path string, content []byte) {
		before := bytes.Clone(content)
		for _, found := range s.search("/"+path, content) {
			if found.Line < 0 || found.Line > 1+bytes.Count(content, []byte("\n")) || found.Kind == "" {
				t.Errorf("finding %+v", found)
			}
		}
		if !bytes.Equal(before, content) {
			t.Error("content was changed")
		}
	})
}

// FuzzIndex compares the search with a plain one.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("hf_ ghp_ghp_AKIA .eyJ.eyJ hvs.hvb."))
	x := newIndex(anchors())
	f.Fuzz(func(t *testing.T, content []byte) {
		got, want := map[int]string{}, map[int]string{}
		x.scan(content, func(a *anchor, at int) { got[at] = a.text })
		for _, a := range anchors() {
			for at := range content {
				if bytes.HasPrefix(content[at:], []byte(a.text)) && (a.key != "" || at == 0 || !wordByte(content[at-1])) {
					want[at] = a.text
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("found %v, want %v", got, want)
		}
	})
}

func FuzzMacaroons(f *testing.F) {
	f.Add([]byte("0016location https://x\n"))
	f.Add([]byte("\x02\x01\x01x\x02\x01y\x00\x00\x06"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if macaroon1(raw, time.Time{}) && len(raw) < 40 || macaroon2(raw) && len(raw) < 36 {
			t.Errorf("%q has no room for a signature", raw)
		}
	})
}

func FuzzLists(f *testing.F) {
	f.Add([]byte("a.key,sha256=x,3\n"), "/opt/conda/a.key", "/opt/conda")
	f.Add([]byte(`{"paths":[{"_path":"a.key","sha256":"x"}]}`), "/opt/conda/a.key", "/")
	f.Fuzz(func(t *testing.T, list []byte, p, dir string) {
		r := resolver{files: map[string]suspect{p: {}}}
		r.dropConda(dir, list)
		if strings.HasPrefix(p, "/") && strings.HasPrefix(dir, "/") {
			inRecord(list, relative("/a", "/b"), suspect{})
		}
		if hasLine(list, p, ",") && !bytes.Contains(list, []byte(p)) {
			t.Errorf("%q is not in %q", p, list)
		}
	})
}

func TestRelative(t *testing.T) {
	for _, c := range [][3]string{
		{"/a/b", "/a/b/c", "c"}, {"/a/b", "/a/c/d", "../c/d"}, {"/a/b", "/x", "../../x"}, {"/", "/x/y", "x/y"}, {"/a/b", "/a/bc", "../bc"},
	} {
		if got := relative(c[0], c[1]); got != c[2] {
			t.Errorf("relative(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
