package inventory

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParseMetadata(t *testing.T) {
	for in, want := range map[string]metadata{
		"Metadata-Version: 2.1\nName: numpy\nVersion: 1.26\n\nName: in the text\n": {name: "numpy", version: "1.26"},
		"name:x\r\nVERSION: 2\r\n\r\n":                                             {name: "x", version: "2"},
		"Name: a\nName: b\nVersion: 1\nVersion: 2\n":                               {name: "a", version: "1"},
		"Name: \xff\nVersion: 1\n":                                                 {name: `"\xff"`, version: "1"},
		"Name: x\nVersion: 1\nLicense: BSD\nLicense-Expression: BSD-3-Clause\n":    {"x", "1", "BSD-3-Clause"},
		"Name: x\nVersion: 1\nLicense: A licence\n        Version: 9\n":            {"x", "1", "A licence"},
		"Name: x\nVersion: 1\nLicense: UNKNOWN\n":                                  {name: "x", version: "1"},
		"Name: x\nVersion: 1\nLicense: " + strings.Repeat("words ", 50):            {name: "x", version: "1"},
		"Name: x\n": {name: "x"}, "\nName: x\nVersion: 1\n": {}, "": {}, "Version: 1": {version: "1"},
		"Name: x\x1b[2J\nVersion: 1\n": {name: `"x\x1b[2J"`, version: "1"},
	} {
		got, ok := parseMetadata([]byte(in))
		if d := cmp.Diff(want, got, cmp.AllowUnexported(metadata{})); d != "" || ok != (want.name != "" && want.version != "") {
			t.Errorf("parseMetadata(%q) = %v: %s", in, ok, d)
		}
	}
}

func TestParseDirectURL(t *testing.T) {
	for in, want := range map[string]origin{
		`{"url": "https://u:p@x.example/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}`: {url: "git+https://x.example/a.git", commit: "abc"},
		`{"url": "file:///opt/a%20b", "dir_info": {"editable": true}}`:                           {editable: "/opt/a b"},
		`{"url": "file:///opt/a", "dir_info": {}}`:                                               {url: "file:///opt/a"},
		`{"url": "https://x.example/a.whl?t=1", "archive_info": {}}`:                             {url: "https://x.example/a.whl"},
		`{"dir_info": {"editable": true}}`:                                                       {},
		`{"url": 3}`:                                                                             {}, `[`: {}, ``: {},
	} {
		if d := cmp.Diff(want, parseDirectURL([]byte(in)), cmp.AllowUnexported(origin{})); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
}

func TestEachRecord(t *testing.T) {
	in := "six.py,sha256=x,1\r\n\"a,b\"\"c.py\",,\n../../../bin/six,,\n/etc/six.conf,,\nodd name.py,,\n\n,,\n\"open\n../../../../../../../etc/passwd,,\n"
	var got []string
	eachRecord([]byte(in), "/v/lib/python3/site-packages", func(f []byte) { got = append(got, string(f)) })
	want := []string{
		"/v/lib/python3/site-packages/six.py", `/v/lib/python3/site-packages/a,b"c.py`, "/v/bin/six", "/etc/six.conf",
		"/v/lib/python3/site-packages/odd name.py", "/etc/passwd",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNormalName(t *testing.T) {
	for in, want := range map[string]string{"My_Analysis": "my-analysis", "a.-_b": "a-b", "-x-": "x", "": "", "numpy": "numpy"} {
		if got := normalName(in); got != want {
			t.Errorf("normalName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParseDpkgStatusOfNoStatus(t *testing.T) {
	list := parseDpkgStatus([]byte("Status: install ok installed\nPackage: base\nVersion: 1\nArchitecture: arm64\nDescription: x\n Package: y\n"))
	if d := cmp.Diff([]Package{{Manager: Apt, Name: "base", Version: "1", Architecture: "arm64"}}, list); d != "" {
		t.Error(d)
	}
}

func TestCUDAVersions(t *testing.T) {
	for want, list := range map[string][]Package{
		"12.8": {{Manager: Pip, Name: "torch", Version: "2.9.0+cu128"}, {Manager: Pip, Name: "nvidia-cuda-runtime-cu12", Version: "12.8.90"}},
		"11.8": {{Manager: Pip, Name: "torch", Version: "2.1.0+cu118"}, {Manager: Conda, Name: "cudatoolkit", Version: "11.8.0"}},
		"13.0": {{Manager: Pip, Name: "nvidia_cuda_runtime", Version: "13.0.48"}, {Manager: Apt, Name: "cuda-cudart-13-0", Version: "13.0.88-1"}},
		"12":   {{Manager: Pip, Name: "cupy-cuda12x", Version: "13.6.0"}, {Manager: Pip, Name: "jax_cuda12_plugin", Version: "0.8"}},
		"12.4": {{Manager: Apt, Name: "libcudart12", Version: "12.4.127~12.4.1-3"}, {Manager: Conda, Name: "pytorch-cuda", Version: "12.4"}},
		"": {
			{Manager: Pip, Name: "torch", Version: "2.9.0+cpu"}, {Manager: Pip, Name: "torch", Version: "2.9.0"}, {Manager: Pip, Name: "nvidia-cudnn-cu12", Version: "9.1"},
			{Manager: Pip, Name: "x", Version: "1+accu123"}, {Manager: Apt, Name: "y", Version: "1+cu128"}, {Manager: Pip, Name: "torch", Version: "2.9.0+rocm6.4"},
		},
	} {
		for _, p := range list {
			if got := cudaOfPackage(p); got != want {
				t.Errorf("%s %s: %q, want %q", p.Name, p.Version, got, want)
			}
		}
	}
	for name, want := range map[string]string{
		"libcudart.so.12.8.90": "12.8", "libcudart.so.12": "12", "libcudart.so.11.0": "11", "libcudart.so.11.8.89": "11.8",
		"libcudart-a7b20f20.so.11.0": "11", "libcudart.so": "", "libcudart_static.a": "", "libcudart.so.9999999999999.1": "",
	} {
		if got := cudaOfFile(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for version, want := range map[string]string{
		"13.1": "580", "13": "580", "12.8": "525.60.13", "11": "450.80.02", "10.2": "440.33", "10": "", "1": "", "14.0": "", "": "",
	} {
		if got := leastDriver(version); got != want {
			t.Errorf("driver of %s: %q, want %q", version, got, want)
		}
	}
}

func TestParseGitConfig(t *testing.T) {
	for in, want := range map[string]gitConfig{
		"[remote \"up\"]\nurl = a\n[remote \"origin\"]\n\turl = \"b\"\n[branch \"url\"]\nurl = c\n": {remote: "b"},
		"[remote \"origin\"]\nurl = b\n[remote \"up\"]\nurl = a\n":                                  {remote: "b"},
		"[remote \"up\"]\nurl = a\n":               {remote: "a"},
		"[core]\nfilemode=false\nautocrlf=false\n": {noModes: true},
		"[extensions]\nobjectformat = sha256\n":    {filtered: "its objects are not named by SHA-1"},
		"[core\nx":                                 {}, "url = x": {}, "": {},
	} {
		if d := cmp.Diff(want, parseGitConfig([]byte(in)), cmp.AllowUnexported(gitConfig{})); d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
}

// sound fails when a string is not fit for an inventory.
func sound(t *testing.T, words ...string) {
	t.Helper()
	for _, s := range words {
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\n\r\x00\x1b") {
			t.Errorf("%q", s)
		}
	}
}

func FuzzTextFiles(f *testing.F) {
	for _, name := range []string{"var/lib/dpkg/status", "usr/lib/os-release", "opt/venv/pyvenv.cfg", "usr/local/lib/R/site-library/Rcpp/DESCRIPTION"} {
		b, err := os.ReadFile("testdata/env/" + name)
		must(f, err)
		f.Add(b)
	}
	f.Add([]byte("Name: numpy\nVersion: 1.26\nLicense: BSD\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseMetadata(b)
		if ok && (m.name == "" || m.version == "") {
			t.Errorf("%+v", m)
		}
		sound(t, m.name, m.version, m.license)
		for _, p := range parseDpkgStatus(b) {
			sound(t, p.Name, p.Version, p.Architecture)
		}
		s := parseOSRelease(b)
		i := parseVenv(b)
		p, _ := parseDescription(b)
		sound(t, s.ID, s.Name, s.Version, i.Home, i.Version, p.Name, p.Version, p.License)
		parseEggLink(b)
	})
}

func FuzzJSONFiles(f *testing.F) {
	for _, name := range []string{
		"opt/conda/conda-meta/python-3.12.9-h9e4cc4f_0_cpython.json", "opt/spack/.spack-db/index.json",
		"opt/spack/linux-debian13-zen3/gcc-14.2.0/root-6.34.4-abcdefg/.spack/spec.json", "opt/venv/share/jupyter/kernels/python3/kernel.json",
		"opt/venv/lib/python3.11/site-packages/fit_tool-1.2.dist-info/direct_url.json",
	} {
		b, err := os.ReadFile("testdata/env/" + name)
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _, _ := parseConda(b)
		s, _ := parseSpackSpec(b)
		list, _ := parseSpackIndex(b)
		for _, p := range append(list, c, s) {
			sound(t, p.Name, p.Version, p.Build, p.Channel, p.Architecture, p.License, p.Path)
		}
		k, _ := parseKernel(b)
		o := parseDirectURL(b)
		sound(t, k.Display, k.Language, k.Program, o.url, o.commit, o.editable)
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("six.py,sha256=x,1\n\"a,b\",,\n../../../bin/six,,\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		eachRecord(b, "/site", func(file []byte) {
			if len(file) == 0 || file[0] != '/' || bytes.ContainsAny(file, "\n") {
				t.Errorf("%q", file)
			}
		})
	})
}

func FuzzLicense(f *testing.F) {
	f.Add("(MIT OR Apache-2.0) AND BSD-3-Clause")
	f.Fuzz(func(t *testing.T, s string) {
		if e := licenseExpression(s); e != "" && licenseExpression(e) != e {
			t.Errorf("%q gives %q, which gives %q", s, e, licenseExpression(e))
		}
	})
}
