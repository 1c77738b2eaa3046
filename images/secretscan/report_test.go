package secretscan

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

// memory is a tree in memory that counts what is opened.
type memory struct {
	fstest.MapFS
	opened map[string]int
}

func (m memory) Open(path string) (io.ReadCloser, error) {
	m.opened[path]++
	return m.MapFS.Open(path[1:])
}

func (m memory) Names(dir string) []string {
	name := dir[1:]
	if name == "" {
		name = "."
	}
	var names []string
	list, _ := fs.ReadDir(m.MapFS, name)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func treeOf(files map[string]string) memory {
	m := memory{fstest.MapFS{}, map[string]int{}}
	for p, text := range files {
		m.MapFS[p[1:]] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func record(path, text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
}

func TestWhatPackagesPublishIsDropped(t *testing.T) {
	key, other := ecKey(), ecKey()
	sha, sum := sha256.Sum256([]byte(key)), md5.Sum([]byte(key))
	hexSHA, hexMD5 := hex.EncodeToString(sha[:]), hex.EncodeToString(sum[:])
	site := "/opt/venv/lib/python3.12/site-packages"
	list, info, meta := site+"/pkg-1.dist-info/RECORD", "/var/lib/dpkg/info/x.md5sums", "/opt/conda/conda-meta/x-1-0.json"
	unpacked := "/opt/conda/pkgs/x-1-0/"
	conda := func(key, sums string) string { return `{"` + key + `":[{"_path":"share/a.key",` + sums + `}]}` }
	for name, c := range map[string]struct {
		path, list, text string
		published        bool
	}{
		"pip":                {site + "/pkg/tests/a.key", list, "x,,\n" + record("pkg/tests/a.key", key), true},
		"pip, changed":       {site + "/pkg/tests/a.key", list, record("pkg/tests/a.key", other), false},
		"pip, other path":    {site + "/pkg/tests/a.key", list, record("xpkg/tests/a.key", key), false},
		"pip, no package":    {site + "/pkg/tests/a.key", site + "/pkg/RECORD", record("pkg/tests/a.key", key), false},
		"pip, quoted":        {site + `/p,k"g/a.key`, list, record(`"p,k""g/a.key"`, key), true},
		"pip, data":          {"/opt/venv/share/pkg/a.key", list, record("../../../share/pkg/a.key", key), true},
		"dpkg":               {"/usr/lib/python3/x/a.key", info, hexMD5 + "  usr/lib/python3/x/a.key\n", true},
		"dpkg, before usr":   {"/usr/lib/x/a.key", info, "00  z\n" + hexMD5 + "  lib/x/a.key", true},
		"dpkg, longer path":  {"/usr/lib/x/a.key", info, hexMD5 + "  usr/lib/x/a.key2\n", false},
		"dpkg, wrong sum":    {"/usr/lib/x/a.key", info, strings.Repeat("0", 32) + "  usr/lib/x/a.key\n", false},
		"conda":              {"/opt/conda/share/a.key", meta, `{"paths_data":` + conda("paths", `"sha256":"`+hexSHA+`"`) + `}`, true},
		"conda, with prefix": {"/opt/conda/share/a.key", meta, `{"paths_data":` + conda("paths", `"sha256_in_prefix":"`+hexSHA+`"`) + `}`, true},
		"conda, unpacked":    {unpacked + "share/a.key", unpacked + "info/paths.json", conda("paths", `"sha256":"`+hexSHA+`"`), true},
		"conda, changed":     {"/opt/conda/share/a.key", meta, `{"paths_data":` + conda("paths", `"sha256":"0"`) + `}`, false},
		"conda, broken":      {"/opt/conda/share/a.key", meta, `{"a.key`, false},
		"nobody":             {"/opt/a.key", "/opt/README", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScanner(t)
			s.Look(c.path, []byte(key))
			r, err := s.Report(t.Context(), treeOf(map[string]string{c.path: key, c.list: c.text}))
			if err != nil || (len(r.Findings) == 0) != c.published {
				t.Errorf("findings %v, error %v", r.Findings, err)
			}
		})
	}
}

func TestListsAreReadOnlyForFindings(t *testing.T) {
	s := newScanner(t)
	s.Look("/usr/lib/x/a.py", source(1000))
	tree := treeOf(map[string]string{"/usr/lib/x/a.py": "x", "/var/lib/dpkg/info/x.md5sums": "x"})
	if _, err := s.Report(t.Context(), tree); err != nil || len(tree.opened) != 0 {
		t.Errorf("opened %v, error %v", tree.opened, err)
	}
}

func TestReportStopsWhenItIsTold(t *testing.T) {
	s := newScanner(t)
	s.Look("/usr/lib/x/a.key", []byte(ecKey()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Report(ctx, treeOf(map[string]string{"/usr/lib/x/a.key": "", "/var/lib/dpkg/info/x.md5sums": "x"}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestTheLastLookCounts(t *testing.T) {
	s := newScanner(t)
	s.Look("opt/a", []byte(github("ghp")))
	s.Look("/opt/a", []byte("nothing"))
	s.Look("/opt/b", []byte(github("ghp")))
	s.Look("/opt/c", []byte(github("ghp")))
	r, err := s.Report(t.Context(), treeOf(map[string]string{"/opt/b": ""})) // c was deleted meanwhile
	if d := cmp.Diff([]Finding{{"/opt/b", GitHub, 1}}, r.Findings); d != "" || err != nil {
		t.Error(err, d)
	}
}

// Python writes constants into what it compiles.
func TestCompiledFilesAreJudgedByTheirSource(t *testing.T) {
	site := "/opt/venv/lib/python3.12/site-packages"
	source := `KEY = """` + ecKey() + "\"\"\"\n"
	compiled := "\xcb\x0d\x0d\x0a\x00" + source
	for name, c := range map[string]struct {
		source, record string
		want           []Finding
	}{
		"published":     {source, record("pkg/a.py", source), nil},
		"not published": {source, "", []Finding{{site + "/pkg/a.py", PrivateKey, 1}}},
		"stale":         {"KEY = None\n", record("pkg/a.py", "KEY = None\n"), []Finding{{site + "/pkg/__pycache__/a.cpython-312.pyc", PrivateKey, 0}}},
		"other secret":  {github("ghp"), "", []Finding{{site + "/pkg/__pycache__/a.cpython-312.pyc", PrivateKey, 0}}},
	} {
		s := newScanner(t)
		p := site + "/pkg/__pycache__/a.cpython-312.pyc"
		s.Look(p, []byte(compiled))
		files := map[string]string{p: compiled, site + "/pkg/a.py": c.source, site + "/pkg-1.dist-info/RECORD": c.record}
		r, err := s.Report(t.Context(), treeOf(files))
		if d := cmp.Diff(c.want, r.Findings); d != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

// A package as pip installs it, with its tests' keys and manuals' tokens in every place: an environment that has it is
// clean, and is not when one file was changed.
func TestGeneratedPackage(t *testing.T) {
	site := "/usr/local/lib/python3.12/site-packages/"
	files, list := map[string]string{}, ""
	for name, c := range anywhere() {
		p := "pkg/tests/" + strings.ReplaceAll(name, " ", "_") + ".txt"
		files[site+p] = c.text
		list += record(p, c.text)
	}
	files[site+"pkg/code.py"] = string(source(50_000))
	files[site+"pkg-1.dist-info/RECORD"] = list + "pkg/code.py,,\n"
	s := newScanner(t)
	for p, text := range files {
		s.Look(p, []byte(text))
	}
	if r, err := s.Report(t.Context(), treeOf(files)); err != nil || r.Err() != nil {
		t.Error(err, r.Err())
	}
	changed := site + "pkg/tests/jwt.txt"
	files[changed] += "\n"
	s.Look(changed, []byte(files[changed]))
	r, err := s.Report(t.Context(), treeOf(files))
	if d := cmp.Diff([]Finding{{changed, JWT, 1}}, r.Findings); err != nil || d != "" {
		t.Error(err, d)
	}
}

func TestSourceOf(t *testing.T) {
	for p, want := range map[string]string{
		"/a/__pycache__/b.cpython-312.pyc": "/a/b.py", "/a/__pycache__/b.cpython-312.opt-1.pyc": "/a/b.py", "/__pycache__/b.x.pyc": "/b.py",
		"/a/b.pyc": "", "/a/__pycache__/b.py": "", "/a/__pycache__/.pyc": "",
	} {
		if got, ok := sourceOf(p); ok != (want != "") || ok && got != want {
			t.Errorf("sourceOf(%q) = %q, %v", p, got, ok)
		}
	}
}

func TestAllowed(t *testing.T) {
	s := newScanner(t, "/opt/a", "/srv/keys/", "/nothing")
	for _, p := range []string{"/opt/a", "/opt/a2", "/srv/keys/x/y", "/srv/keysx"} {
		s.Look(p, []byte(github("ghp")))
	}
	r, err := s.Report(t.Context(), nil)
	want := Report{
		Findings: []Finding{{"/opt/a2", GitHub, 1}, {"/srv/keysx", GitHub, 1}},
		Allowed:  []Finding{{"/opt/a", GitHub, 1}, {"/srv/keys/x/y", GitHub, 1}},
		Unused:   []string{"/nothing"},
	}
	if d := cmp.Diff(want, r); d != "" || err != nil {
		t.Error(err, d)
	}
}

func TestAllowListIsChecked(t *testing.T) {
	for _, p := range []string{"", "/", "a", "./a", "/a/../b", "/a//", "~/x", "/a/."} {
		if _, err := New(Config{Allow: []string{p}}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "allow_secret") {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// TestDirectoryWithoutItsSlash allows nothing below it, and the error says what would.
func TestDirectoryWithoutItsSlash(t *testing.T) {
	for rule, want := range map[string]string{"/srv/keys": `--allow-secret "/srv/keys/" (a directory`, "/srv/key": "--allow-secret PATH,", "/srv/other/": "PATH"} {
		s := newScanner(t, rule)
		s.Look("/srv/keys/x/y", []byte(github("ghp")))
		r, err := s.Report(t.Context(), nil)
		if err != nil || r.Err() == nil || !strings.Contains(r.Err().Error(), want) {
			t.Errorf("%s: %v, %v", rule, err, r.Err())
		}
	}
}

func TestErrorNamesWhatAndWhereAndNeverTheSecret(t *testing.T) {
	s := newScanner(t)
	var said []string
	for name, c := range anywhere() {
		s.Look("/opt/a file/"+name, []byte("\n"+c.text))
		said = append(said, strings.Fields(c.text)...)
	}
	s.Look("/x\ny", []byte(github("ghp")))
	r, _ := s.Report(t.Context(), nil)
	err := r.Err()
	if !errs.Is(err, errs.Conflict) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{`"/opt/a file/age" line 2: a private key`, "and ", " more", "--allow-secret PATH", fmt.Sprint(len(anywhere())+1, " files")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	for _, word := range said {
		if len(word) > 16 && strings.Contains(err.Error(), word) {
			t.Errorf("the error holds %q", word)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("a path is not quoted: %q", err)
	}
	if err := (Report{Allowed: r.Findings}).Err(); err != nil {
		t.Error(err)
	}
}

func TestAnErrorOfOneFile(t *testing.T) {
	r := Report{Findings: []Finding{{"/opt/.netrc", Netrc, 3}}}
	if got := r.Err().Error(); !strings.HasPrefix(got, "nothing was frozen: a file holds a secret: /opt/.netrc line 3: a netrc entry with a password: delete it") {
		t.Error(got)
	}
}

func TestBounds(t *testing.T) {
	s := newScanner(t)
	secret := []byte(github("ghp"))
	for i := range maxFiles + 5 {
		s.Look(fmt.Sprint("/f/", i), secret)
	}
	s.Look("/many", bytes.Repeat(append(secret, '\n'), 100))
	s.Look(fmt.Sprint("/f/", maxFiles+1), nil)
	r, err := s.Report(t.Context(), nil)
	if len(r.Findings) != maxFiles || r.More != 5 || err != nil {
		t.Errorf("%d findings, %d more, %v", len(r.Findings), r.More, err)
	}
	if got := scanned(t, "/many", strings.Repeat(string(secret)+"\n", 100)); len(got) != maxHits {
		t.Errorf("%d findings in one file", len(got))
	}
}

func TestConcurrentLooks(t *testing.T) {
	s := newScanner(t)
	secret := []byte(github("ghp"))
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for j := range 50 {
				s.Look(fmt.Sprint("/", i, "/", j), secret)
				s.Look("/same", secret)
			}
		})
	}
	wait.Wait()
	if r, _ := s.Report(t.Context(), nil); len(r.Findings) != 401 {
		t.Errorf("%d findings", len(r.Findings))
	}
}
