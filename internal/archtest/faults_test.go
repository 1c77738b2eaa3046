package archtest

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestFaultsAreFound shows each rule a tree that breaks it.
func TestFaultsAreFound(t *testing.T) {
	const head = "// Package p is.\npackage p\n"
	tests := []struct {
		name, file, text string
		want             string
	}{
		{"nothing wrong", "spawner/x.go", head + `import "slipway/internal/errs"`, ""},
		{"unknown package", "internal/util/x.go", head, "internal/util has no row"},
		{"wrong direction", "internal/errs/x.go", head + `import "slipway/spawner"`, "internal/errs/x.go imports slipway/spawner"},
		{"the root", "hubapi/x.go", head + `import "slipway"`, "imports slipway"},
		{"unknown dependency", "spawner/x.go", head + `import "github.com/sirupsen/logrus"`, "imports github.com/sirupsen/logrus"},
		{"a name that only begins alike", "internal/config/x.go", head + `import "go.yaml.in/yaml/v42"`, "yaml/v42"},
		{"cgo", "internal/agent/x.go", head + `import "C"`, "imports C"},
		{"a test may use a test's package", "spawner/x_test.go", "package p\n" + `import "github.com/google/go-cmp/cmp"`, ""},
		{"only a test may", "spawner/x.go", head + `import "github.com/google/go-cmp/cmp"`, "go-cmp"},
		{"images and spawner", "spawner/x.go", head + `import "slipway/images"`, "spawner -> images: the engine knows environments by name"},
		{"no package comment", "spawner/x.go", "package p\n", "spawner has 0 package comments"},
		{"init", "spawner/x.go", head + "func init() {}", "has func init"},
		{"a method is no init", "spawner/x.go", head + "type t int\nfunc (t) init() {}", ""},
		{"sleep", "spawner/x_test.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", "sleeps"},
		{"virtual sleep", "spawner/x_test.go", "package p\nimport (\"time\"; \"testing/synctest\")\nvar _ = synctest.Wait\nfunc f() { time.Sleep(1) }", ""},
		{"registry", "deploy/x.sh", "curl https://deb." + "debian.org/x", "deploy/x.sh:1 names"},
		{"path of one machine", "deploy/x.sh", "a\ncd /" + "work/main", "deploy/x.sh:2 names"},
		{"path that only ends alike", "deploy/x.sh", "cd $dir/work/main /lib/work/x ./work/", ""},
		{"not looked at", "node_modules/x/x.go", "package p\nfunc init() {}", ""},
		{"a nested module", "deploy/tools/x.go", "package p\nfunc init() {}", "deploy/tools"},
		{"room", "docs/x.md", "x", "docs in the root"},
	}
	for _, tt := range tests {
		tree := fstest.MapFS{tt.file: {Data: []byte(tt.text)}}
		if strings.HasSuffix(tt.file, "_test.go") {
			tree["spawner/doc.go"] = &fstest.MapFile{Data: []byte(head)}
		}
		got := faultsOf(t, tree)
		if tt.want == "" && len(got) > 0 || tt.want != "" && !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, tt.want) }) {
			t.Errorf("%s: faults %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRoutesGoThroughOtherPackages(t *testing.T) {
	tree := fstest.MapFS{
		"internal/agent/x.go":  {Data: []byte("package p\nimport _ \"slipway/internal/tunnel\"")},
		"internal/tunnel/x.go": {Data: []byte("package p\nimport _ \"slipway/internal/agent\"\nimport _ \"slipway/internal/store\"")},
	}
	want := "internal/agent -> internal/tunnel -> internal/store: the agent keeps no records"
	if got := faultsOf(t, tree); !slices.Contains(got, want) {
		t.Errorf("faults %q lack %q", got, want)
	}
}

func TestNestedModulesAreTheirOwn(t *testing.T) {
	tree := fstest.MapFS{"deploy/tools/go.mod": {}, "deploy/tools/x.go": {Data: []byte("package p\nfunc init() {}")}}
	if got := faultsOf(t, tree); len(got) > 0 {
		t.Errorf("faults %q", got)
	}
}

func faultsOf(t *testing.T, tree fs.FS) []string {
	t.Helper()
	packages, err := sources(tree)
	if err != nil {
		t.Fatal(err)
	}
	all, err := texts(tree)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "node_modules" })
	return slices.Concat(importFaults(packages, rules()), reachFaults(packages), styleFaults(packages), textFaults(all), roomFaults(entries))
}
