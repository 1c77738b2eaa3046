package x509proxy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// grid is a directory with an authority, a person and a VOMS server, made by openssl.
type grid struct {
	t   *testing.T
	dir string
}

func newGrid(t *testing.T) grid {
	t.Helper()
	testenv.Need(t, testenv.OpenSSL)
	g := grid{t, t.TempDir()}
	g.must("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/C=XX/O=Grid/CN=Root",
		"-addext", "keyUsage=critical,keyCertSign,cRLSign")
	g.person("alice", "/C=XX/O=Grid/CN=Alice Liddell")
	g.person("voms", "/C=XX/O=Grid/CN=voms.example.org")
	if err := os.Mkdir(filepath.Join(g.dir, "trust"), 0o755); err != nil {
		t.Fatal(err)
	}
	g.must("cp", "ca.pem", "trust/ca.pem")
	g.must("openssl", "rehash", "trust")
	return g
}

// run runs a program there. None of its surroundings point to a user's own files.
func (g grid) run(program string, args ...string) (string, error) {
	c := exec.CommandContext(g.t.Context(), program, args...)
	c.Dir = g.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "X509_CERT_DIR=" + filepath.Join(g.dir, "trust"), "X509_VOMS_DIR=" + filepath.Join(g.dir, "vomsdir")}
	out, err := c.CombinedOutput()
	return string(out), err
}

func (g grid) must(program string, args ...string) {
	g.t.Helper()
	if out, err := g.run(program, args...); err != nil {
		g.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// person has the authority sign a certificate.
func (g grid) person(file, subject string) {
	g.t.Helper()
	g.write(file+".ext", "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n")
	g.must("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", file+".key", "-out", file+".csr", "-subj", subject)
	g.must("openssl", "x509", "-req", "-in", file+".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "20", "-extfile", file+".ext", "-out", file+".pem")
	g.must("chmod", "600", file+".key")
}

func (g grid) write(file, text string) {
	g.t.Helper()
	path := filepath.Join(g.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g grid) read(file string) string {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

func (g grid) checker(vomsDir string) *Checker {
	g.t.Helper()
	c, err := Open(Config{Trust: filepath.Join(g.dir, "trust"), VOMSDir: vomsDir})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// openssl makes a proxy of the person's certificate, with a key of so many bits.
func (g grid) openssl(file string, bits int, language string) string {
	g.t.Helper()
	g.write(file+".ext", "keyUsage=critical,digitalSignature\nproxyCertInfo=critical,language:"+language+"\n")
	g.must("openssl", "req", "-newkey", fmt.Sprintf("rsa:%d", bits), "-nodes", "-keyout", file+".key", "-out", file+".csr", "-subj", "/C=XX/O=Grid/CN=Alice Liddell/CN=77")
	g.must("openssl", "x509", "-req", "-in", file+".csr", "-CA", "alice.pem", "-CAkey", "alice.key", "-set_serial", "77", "-days", "1", "-extfile", file+".ext", "-out", file+".pem")
	return g.read(file+".pem") + g.read(file+".key") + g.read("alice.pem")
}

func TestOpenSSL(t *testing.T) {
	g := newGrid(t)
	c := g.checker("")
	p, err := check(c, g.openssl("good", 2048, "id-ppl-inheritAll"))
	if err != nil || p.Subject != "/C=XX/O=Grid/CN=Alice Liddell" || p.Issuer != "/C=XX/O=Grid/CN=Root" {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = check(c, g.openssl("independent", 2048, "id-ppl-independent"))
	refused(t, "independent", err, "an independent one")
	for _, bits := range []int{512, 1024} {
		_, err = check(c, g.openssl("weak", bits, "id-ppl-inheritAll"))
		refused(t, "weak", err, fmt.Sprintf("has %d bits", bits))
	}
	g.must("openssl", "rsa", "-aes256", "-passout", "pass:x", "-in", "good.key", "-out", "sealed.key")
	g.must("openssl", "rsa", "-aes256", "-traditional", "-passout", "pass:x", "-in", "good.key", "-out", "sealed.old")
	for _, key := range []string{"sealed.key", "sealed.old"} {
		_, err = check(c, g.read("good.pem")+g.read(key)+g.read("alice.pem"))
		refused(t, key, err, "has a passphrase")
	}
}

func TestOpenSSLRevokes(t *testing.T) {
	g := newGrid(t)
	file := g.openssl("good", 2048, "id-ppl-inheritAll")
	g.write("index.txt", "")
	g.write("crlnumber", "01\n")
	g.write("ca.cnf", "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\ndefault_md=sha256\ndefault_crl_days=7\n")
	list := func() {
		g.must("openssl", "ca", "-config", "ca.cnf", "-gencrl", "-keyfile", "ca.key", "-cert", "ca.pem", "-out", "trust/list.pem")
		g.must("openssl", "rehash", "trust")
	}
	c := g.checker("")
	list()
	if _, err := check(c, file); err != nil {
		t.Errorf("with an empty list: %v", err)
	}
	g.must("openssl", "ca", "-config", "ca.cnf", "-revoke", "alice.pem", "-keyfile", "ca.key", "-cert", "ca.pem")
	list()
	_, err := check(c, file)
	refused(t, "revoked", err, "was revoked by its authority")
}

func TestVOMSClients(t *testing.T) {
	testenv.Need(t, testenv.VOMS)
	g := newGrid(t)
	g.write("lines/atlas/voms.example.org.lsc", goodLines)
	c := g.checker(filepath.Join(g.dir, "lines"))
	made := func(program string, args ...string) string {
		g.must(program, append([]string{"-cert", "alice.pem", "-key", "alice.key", "-certdir", "trust", "-out", "proxy", "-hours", "12"}, args...)...)
		return g.read("proxy")
	}
	server := []string{"-rfc", "-uri", "voms.example.org:15001", "-hostcert", "voms.pem", "-hostkey", "voms.key"}
	fake := func(args ...string) string {
		return made("voms-proxy-fake", slices.Concat(server, []string{"-voms", "atlas", "-fqan", "/atlas/Role=production/Capability=NULL"}, args)...)
	}
	for title, file := range map[string]string{
		"RFC 3820": made("voms-proxy-init"), "the older kind": made("voms-proxy-init", "-old"),
	} {
		p, err := check(c, file)
		if left := time.Until(p.Expires); err != nil || p.Subject != "/C=XX/O=Grid/CN=Alice Liddell" || p.VO != "" || left < 11*time.Hour || left > 12*time.Hour {
			t.Errorf("%s: %+v, %v", title, p, err)
		}
	}
	for title, file := range map[string]string{"VOMS": fake(), "VOMS, the newer way": fake("-newformat")} {
		p, err := check(c, file)
		if err != nil || p.VO != "atlas" || len(p.FQANs) == 0 || p.FQANs[0] != "/atlas/Role=production/Capability=NULL" || !p.Verified {
			t.Errorf("%s: %+v, %v", title, p, err)
		}
	}
	for _, test := range []struct{ title, want, file string }{
		{"limited", "a limited one", made("voms-proxy-init", "-limited")},
		{"limited of the older kind", "a limited one", made("voms-proxy-init", "-limited", "-old")},
		{"a draft's kind", "a draft before RFC 3820", made("voms-proxy-init", "-proxyver", "3")},
		{"1024 bits", "has 1024 bits", made("voms-proxy-init", "-bits", "1024")},
		{"a server that is none", "no server of atlas", fake("-hostcert", "alice.pem", "-hostkey", "alice.key")},
		{"expired membership", "has expired on", fake("-vomslife", "1", "-pastac", "2:00")},
		{"an organisation that is not known", "no VOMS server of cms", made("voms-proxy-fake", slices.Concat(server, []string{"-voms", "cms", "-fqan", "/cms"})...)},
	} {
		_, err := check(c, test.file)
		refused(t, test.title, err, test.want)
	}
	_, err := check(c, g.read("alice.pem")+g.read("alice.key"))
	refused(t, "one's own", err, "is your own and not a proxy")
}
