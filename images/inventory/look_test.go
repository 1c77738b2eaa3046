package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"slipway/images/squashfs"
)

const venvPath = "/opt/venv/bin:/usr/local/bin:/usr/bin"

func TestLookAtRealInstallations(t *testing.T) {
	i := look(t, Config{Tree: newStore().tree(disk(t, "testdata/env")), Name: "slipway/notebook:1", Path: venvPath})
	golden(t, "inventory.json", asJSON(t, i))
	b := string(asJSON(t, i))
	for _, secret := range []string{"secret", "abc-123", "user:"} {
		if strings.Contains(b, secret) {
			t.Errorf("the inventory tells %q", secret)
		}
	}
}

func TestLookIsTheSameWithABase(t *testing.T) {
	s, files := newStore(), disk(t, "testdata/env")
	base := s.tree(files)
	known := &Known{Tree: base, Inventory: look(t, Config{Tree: base, Path: venvPath})}
	alone := known.Inventory
	alone.Outside, alone.Altered = Outside{}, Listing{}
	again := look(t, Config{Tree: s.tree(files), Base: known, Path: venvPath})
	if d := cmp.Diff(alone, again); d != "" {
		t.Error(d)
	}
	if d := Compare(alone, again); !d.Equal() {
		t.Error(d.Lines())
	}
}

// What was read for the base is not read again.
func TestLookReadsOnlyWhatTheChangeTouches(t *testing.T) {
	s, files := newStore(), disk(t, "testdata/env")
	base := s.tree(files)
	known := &Known{Tree: base, Inventory: look(t, Config{Tree: base, Path: venvPath})}
	now := s.tree(with(files, fstest.MapFS{
		site + "numpy-2.3.4.dist-info/METADATA": file("Name: numpy\nVersion: 2.3.4\n"),
		site + "numpy-2.3.4.dist-info/RECORD":   file("numpy/__init__.py,,\nnumpy-2.3.4.dist-info/RECORD,,\n"),
		site + "numpy/__init__.py":              file("import this"),
		"usr/local/bin/mine":                    file("#!/bin/sh"),
	}))
	var read []string
	open := now.Open
	now.Open = func(n *squashfs.Node) (io.ReaderAt, error) {
		read = append(read, s.bytes[n.Data.Start])
		return open(n)
	}
	i := look(t, Config{Tree: now, Base: known, Path: venvPath})
	for _, content := range read {
		if strings.Contains(content, "Name: six") || strings.Contains(content, "Package: libc6") || strings.Contains(content, "six.py,") {
			t.Errorf("read again: %.60q", content)
		}
	}
	if d := cmp.Diff([]string{"+ numpy 2.3.4"}, Compare(known.Inventory, i).Lines()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/usr/local/bin/mine"}, i.Outside.First); d != "" {
		t.Error(d)
	}
}

// A package whose files say other than the base's do is told of as they say, whichever file it is.
func TestLookBelievesNoBaseThatIsOutdated(t *testing.T) {
	s, files := newStore(), disk(t, "testdata/env")
	base := s.tree(files)
	known := &Known{Tree: base, Inventory: look(t, Config{Tree: base, Path: venvPath})}
	six := site + "six-1.17.0.dist-info/"
	for name, c := range map[string]struct {
		change fstest.MapFS
		want   string
	}{
		"metadata":    {fstest.MapFS{six + "METADATA": file("Name: six\nVersion: 1.18\n")}, "~ six 1.17.0 -> 1.18"},
		"installer":   {fstest.MapFS{six + "INSTALLER": file("conda")}, "- six 1.17.0"},
		"direct url":  {fstest.MapFS{six + "direct_url.json": file(`{"url": "file:///s", "dir_info": {"editable": true}}`)}, "~ six 1.17.0 -> 1.17.0 in /s"},
		"gone":        {fstest.MapFS{six + "METADATA": nil}, "- six 1.17.0"},
		"dpkg":        {fstest.MapFS{"var/lib/dpkg/status": file("Package: libc6\nStatus: install ok installed\nVersion: 3\nArchitecture: i386\n")}, "~ libc6 2.41-12 -> 3 (apt)"},
		"R":           {fstest.MapFS{"usr/local/lib/R/site-library/Rcpp/DESCRIPTION": file("Package: Rcpp\nVersion: 2\n")}, "~ Rcpp 1.1.0 -> 2 (r)"},
		"conda":       {fstest.MapFS{"opt/conda/conda-meta/conda-25.3.1-py312h7900ff3_0.json": file(`{"name": "conda", "version": "26", "build": "0", "subdir": "linux-64"}`)}, "~ conda 25.3.1 -> 26 (conda)"},
		"interpreter": {fstest.MapFS{"opt/venv/pyvenv.cfg": file("home = /usr/bin\nversion = 3.14.0\n")}, "~ python 3.11.7 -> 3.14.0"},
	} {
		got := Compare(known.Inventory, look(t, Config{Tree: s.tree(with(files, c.change)), Base: known, Path: venvPath})).Lines()
		if !slices.Contains(got, c.want) || name != "dpkg" && len(got) != 1 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTooManyOfAKind(t *testing.T) {
	files := fstest.MapFS{}
	for n := range maxFew + 1 {
		files[fmt.Sprintf("r/%d/.git/HEAD", n)] = file("ref: refs/heads/main")
	}
	i := look(t, Config{Tree: newStore().tree(files)})
	if len(i.Git) != maxFew || len(i.Trouble) != 1 {
		t.Errorf("%d checkouts, %v", len(i.Git), i.Trouble)
	}
}

const site = "opt/venv/lib/python3.11/site-packages/"

func TestOutsideAndAltered(t *testing.T) {
	zlib := "usr/lib/x86_64-linux-gnu/libz.so.1.3.1"
	base := with(disk(t, "testdata/env"), fstest.MapFS{
		site + "six.py": file("as installed"), zlib: file("zlib"), "lib": link("usr/lib"), "usr/share/doc/zlib1g/copyright": file("(c)"),
		"opt/conda/envs/ana/lib/python3.12/site-packages/numpy/__init__.py": file("conda's"), "etc/motd": file("hello"), "etc/old": file("x"),
	})
	s := newStore()
	tree := s.tree(base)
	known := &Known{Tree: tree, Inventory: look(t, Config{Tree: tree, Roots: []string{}})}
	now := s.tree(with(base, fstest.MapFS{
		site + "six.py": file("patched by hand"),
		"opt/conda/envs/ana/lib/python3.12/site-packages/numpy/__init__.py": file("patched"),
		zlib:                                              file("patched too"),
		"usr/share/doc/zlib1g/copyright":                  nil,
		"etc/motd":                                        file("good evening"),
		"etc/old":                                         nil,
		"etc/ld.so.cache":                                 file("made"),
		"etc/alternatives/vi":                             link("/usr/bin/vim"),
		"usr/bin/vi":                                      link("/etc/alternatives/vi"),
		"opt/conda/pkgs/cache.conda":                      file("made"),
		"opt/conda/conda-meta/history":                    file("more"),
		site + "__pycache__/six.cpython-311.pyc":          file("compiled"),
		site + "__pycache__/gone.cpython-311.pyc":         file("compiled from nothing"),
		site + "wheel/six.pyc":                            file("no cache of ../six.py"),
		"var/lib/dpkg/info/thing.list":                    file("/.\n/lib\n/lib/thing.so\n"),
		"usr/lib/thing.so":                                file("named by its way through a link"),
		"opt/venv/bin/activate":                           file("made"),
		"opt/venv/bin/mine":                               file("mine"),
		"home/alice/thesis.tex":                           file("not looked for"),
		"usr/local/lib/R/site-library/Rcpp/libs/Rcpp.so":  file("R's"),
		"usr/local/lib/libbig.so":                         file(strings.Repeat("b", 1000)),
		"usr/local/lib/a\nb":                              file("odd"),
		"usr/local/lib/\xff":                              file("odd"),
		"opt/venv/lib/python3.11/site-packages/wheel/x.p": file("mine"),
	}))
	i := look(t, Config{Tree: now, Base: known})
	want := Listing{Files: 8, First: []string{
		"/etc/motd", "/opt/venv/bin/mine", "/" + site + "__pycache__/gone.cpython-311.pyc", "/" + site + "wheel/six.pyc", "/" + site + "wheel/x.p",
		"/usr/local/lib/a\nb", "/usr/local/lib/libbig.so", `"/usr/local/lib/\xff"`,
	}}
	if d := cmp.Diff(want, i.Outside.Listing); d != "" {
		t.Errorf("outside: %s", d)
	}
	if i.Outside.Largest[0] != (File{"/usr/local/lib/libbig.so", 1000}) || i.Outside.Bytes != 1000+12+4+21+21+4+3+3 {
		t.Errorf("%+v", i.Outside)
	}
	altered := Listing{Files: 3, First: []string{"/opt/conda/envs/ana/lib/python3.12/site-packages/numpy/__init__.py", "/" + site + "six.py", "/" + zlib}}
	if d := cmp.Diff(altered, i.Altered); d != "" {
		t.Errorf("altered: %s", d)
	}
}

func TestWhatIsListedIsBounded(t *testing.T) {
	files := fstest.MapFS{}
	for n := range 300 {
		files[fmt.Sprintf("usr/local/many/%03d", n)] = file(strings.Repeat("x", n))
		files[fmt.Sprintf("opt/conda/conda-meta/%03d.json", n)] = file("{")
	}
	i := look(t, Config{Tree: newStore().tree(files)})
	if i.Outside.Files != 300 || len(i.Outside.First) != maxFirst || len(i.Outside.Largest) != maxLargest || i.Outside.Largest[0].Bytes != 299 {
		t.Errorf("%d files, %d first, %d largest", i.Outside.Files, len(i.Outside.First), len(i.Outside.Largest))
	}
	if len(i.Trouble) != maxTrouble {
		t.Errorf("%d troubles", len(i.Trouble))
	}
}

// Sizes, links and contents are whatever somebody wrote into the image.
func TestHostileTrees(t *testing.T) {
	s := newStore()
	huge := func(n *squashfs.Node) { n.Data.Size = 1 << 63 }
	for name, c := range map[string]struct {
		files fstest.MapFS
		at    string // the file whose node is spoilt
		spoil func(*squashfs.Node)
	}{
		"a status of an exabyte":    {fstest.MapFS{"var/lib/dpkg/status": file("Package: x")}, "var/lib/dpkg/status", huge},
		"metadata that has no data": {fstest.MapFS{site + "x.dist-info/METADATA": file("Name: lost")}, site + "x.dist-info/METADATA", func(n *squashfs.Node) { n.Data.Start = 1 }},
		"metadata that is a link":   {fstest.MapFS{site + "x.dist-info/METADATA": link("/etc/shadow")}, "", nil},
		"an index of an exabyte":    {fstest.MapFS{"r/.git/HEAD": file("ref: refs/heads/x"), "r/.git/index": file("DIRC")}, "r/.git/index", huge},
		"os-release in a circle":    {fstest.MapFS{"etc/os-release": link("os-release2"), "etc/os-release2": link("os-release")}, "", nil},
		"a git file to itself":      {fstest.MapFS{"r/.git": file("gitdir: .git")}, "", nil},
		"a python in a circle":      {fstest.MapFS{"usr/bin/python3": link("python3")}, "", nil},
		"an egg-link to the root":   {fstest.MapFS{site + "x.egg-link": file("/\n"), "x.egg-info/PKG-INFO": file("Name: x")}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree := s.tree(c.files)
			if c.spoil != nil {
				c.spoil(tree.lookup(c.at))
			}
			i := look(t, Config{Tree: tree})
			if len(i.Packages) != 0 {
				t.Errorf("found %v", i.Packages)
			}
			asJSON(t, i)
		})
	}
}

func TestLookEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Look(ctx, Config{Tree: newStore().tree(fstest.MapFS{"a": file("b")})}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAnEmptyTree(t *testing.T) {
	i := look(t, Config{Tree: newStore().tree(fstest.MapFS{})})
	if d := cmp.Diff(`{"system":{},"packages":[],"outside":{},"altered":{}}`, strings.Join(strings.Fields(string(asJSON(t, i))), "")); d != "" {
		t.Error(d)
	}
}

func TestDefaultInterpreter(t *testing.T) {
	program := func() *fstest.MapFile { return &fstest.MapFile{Data: []byte("ELF"), Mode: 0o755} }
	venv := file("home = /usr/bin\nversion_info = 3.13.5.final.0\ninclude-system-site-packages = true\n")
	system := fstest.MapFS{
		"usr/bin/python3.13": program(), "usr/bin/python3": link("python3.13"), "bin": link("usr/bin"),
		"usr/include/python3.13/patchlevel.h": file("#define PY_MAJOR 3\n#define PY_VERSION      \"3.13.7+\"\n"),
	}
	for name, c := range map[string]struct {
		files fstest.MapFS
		path  string
		want  Interpreter
	}{
		"the system's":   {system, "", Interpreter{Path: "/usr/bin/python3.13", Version: "3.13.7+", Prefix: "/usr", Default: true}},
		"through a link": {system, "/bin", Interpreter{Path: "/usr/bin/python3.13", Version: "3.13.7+", Prefix: "/usr", Default: true}},
		"a virtual environment before it": {
			with(system, fstest.MapFS{"v/pyvenv.cfg": venv, "v/bin/python3": link("/usr/bin/python3"), "v/bin/python": link("python3")}), "/v/bin:/usr/bin",
			Interpreter{Path: "/v/bin/python", Version: "3.13.5", Prefix: "/v", Home: "/usr/bin", SystemSite: true, Default: true},
		},
		"a virtual environment of copies": {
			with(system, fstest.MapFS{"v/pyvenv.cfg": venv, "v/bin/python3": program(), "v/bin/python3.13": program()}), "/v/bin",
			Interpreter{Path: "/v/bin/python", Version: "3.13.5", Prefix: "/v", Home: "/usr/bin", SystemSite: true, Default: true},
		},
		"one of no known name": {
			fstest.MapFS{"opt/x/bin/python": program()}, "relative:/opt/x/bin", Interpreter{Path: "/opt/x/bin/python", Prefix: "/opt/x", Default: true},
		},
		"none that may be run": {fstest.MapFS{"usr/bin/python3": file("text")}, "", Interpreter{}},
	} {
		got, _ := look(t, Config{Tree: newStore().tree(c.files), Path: c.path}).Default()
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
