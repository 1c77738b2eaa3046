package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const userSite = ".local/lib/python3.13/site-packages/"

func home() fstest.MapFS {
	return fstest.MapFS{
		userSite + "numpy-2.4.0.dist-info/METADATA":                      file("Name: NumPy\nVersion: 2.4.0\n"),
		userSite + "ana-0.1.dist-info/METADATA":                          file("Name: ana\nVersion: 0.1\n"),
		userSite + "ana-0.1.dist-info/direct_url.json":                   file(`{"url": "file:///home/alice/ana", "dir_info": {"editable": true}}`),
		userSite + "old.egg-link":                                        file("/home/alice/old\n."),
		userSite + "flat-1.egg-info":                                     file("Name: flat\nVersion: 1\n"),
		userSite + "tree-1.egg-info/PKG-INFO":                            file("Name: tree\nVersion: 1\n"),
		userSite + "broken.dist-info/METADATA":                           file("nothing"),
		userSite + "fifo.dist-info/METADATA":                             {Mode: fs.ModeNamedPipe},
		userSite + "numpy/__init__.py":                                   file(""),
		".local/lib/python3.9/site-packages/six-1.dist-info/METADATA":    file("Name: six\nVersion: 1\n"),
		".local/lib/pythonX/site-packages/not-1.dist-info/METADATA":      file("Name: not\nVersion: 1\n"),
		".local/lib/other/site-packages/not-1.dist-info/METADATA":        file("Name: not\nVersion: 1\n"),
		".local/lib/python3.13/other-packages/not-1.dist-info/METADATA":  file("Name: not\nVersion: 1\n"),
		".local/lib/python3.12/site-packages":                            file("a file"),
		".local/lib/python3.11/site-packages/nothing.dist-info/RECORD":   file(""),
		".local/lib/python3.10/site-packages/empty.dist-info/METADATA":   file(""),
		".local/lib/python3.14/site-packages/x-1.dist-info/METADATA/dir": file(""),
	}
}

func TestHomePackages(t *testing.T) {
	system := Inventory{
		Python:   []Interpreter{{Path: "/usr/bin/python3.13", Prefix: "/usr", Version: "3.13.5", Default: true}},
		Packages: []Package{{Manager: Pip, Name: "numpy", Version: "2.3.1", Path: "/usr/lib/python3/dist-packages"}, {Manager: Pip, Name: "six", Version: "2", Path: "/opt/v"}},
	}
	want := []HomePackage{
		{Name: "ana", Version: "0.1", Editable: "/home/alice/ana", Used: true},
		{Name: "flat", Version: "1", Used: true},
		{Name: "NumPy", Version: "2.4.0", Used: true, Shadows: "2.3.1"},
		{Name: "old", Version: "unknown", Editable: "/home/alice/old", Used: true},
		{Name: "tree", Version: "1", Used: true},
	}
	for i := range want {
		want[i].Python, want[i].Path = "3.13", ".local/lib/python3.13/site-packages"
	}
	want = append(want, HomePackage{Name: "six", Version: "1", Python: "3.9", Path: ".local/lib/python3.9/site-packages"})
	got, err := HomePackages(home(), system)
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A virtual environment sees no home unless it was made to.
func TestHomePackagesOfAVirtualEnvironment(t *testing.T) {
	v := Interpreter{Path: "/v/bin/python", Prefix: "/v", Home: "/usr/bin", Version: "3.13.5", Default: true}
	for see, want := range map[bool]string{false: "", true: "2.3.1"} {
		v.SystemSite = see
		i := Inventory{
			Python:   []Interpreter{v},
			Packages: []Package{{Manager: Pip, Name: "numpy", Version: "2.3.1", Path: "/usr/lib/python3/dist-packages"}},
		}
		got, err := HomePackages(home(), i)
		must(t, err)
		for _, p := range got {
			if p.Name == "NumPy" && (p.Used != see || p.Shadows != want) {
				t.Errorf("sees its system %v: %+v", see, p)
			}
		}
	}
}

// TestNotIn: what the environment has too, by whatever spelling, is not missed without the home.
func TestNotIn(t *testing.T) {
	root := fstest.MapFS{
		"opt/env/lib/python3.13/site-packages/numpy-2.4.0.dist-info/METADATA": file("Name: numpy\nVersion: 2.4.0\n"),
		"opt/env/lib/python3.13/site-packages/ana-0.2.dist-info/METADATA":     file("Name: Ana\nVersion: 0.2\n"),
		"usr/lib/python3/dist-packages/flat-1.egg-info":                       file("Name: flat\nVersion: 1\n"),
		"opt/env/lib/python3.13/site-packages/six-1.dist-info/METADATA":       file("Name: six\nVersion: 1\n"),
	}
	list, err := HomePackages(home(), Inventory{})
	must(t, err)
	var words []string
	for _, p := range NotIn(list, root, []string{"/opt/env", "/usr", "/nowhere"}) {
		words = append(words, p.Name+" "+p.Version+" "+p.Shadows)
	}
	if d := cmp.Diff([]string{"ana 0.1 0.2", "old unknown ", "tree 1 ", "six 1 "}, words); d != "" { // six is another Python's
		t.Error(d)
	}
}

func TestHomesWithoutPackages(t *testing.T) {
	for _, files := range []fstest.MapFS{{}, {".local": file("")}, {".local/lib/x": file("")}} {
		got, err := HomePackages(files, Inventory{})
		if len(got) != 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestHomesAreBounded(t *testing.T) {
	files := fstest.MapFS{}
	for n := range maxHomePackages + 10 {
		files[fmt.Sprintf("%sp%d.egg-info", userSite, n)] = file("Name: p\nVersion: 1\n")
	}
	got, err := HomePackages(files, Inventory{})
	must(t, err)
	if len(got) != maxHomePackages {
		t.Errorf("%d packages", len(got))
	}
}
