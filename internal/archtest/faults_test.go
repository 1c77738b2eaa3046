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
		{"registry", "deploy/x.sh", "curl https://deb." + "debian.org/x", "deploy/x.sh:1 names"},
		{"path of one machine", "deploy/x.sh", "a\ncd /" + "work/main", "deploy/x.sh:2 names"},
		{"path that only ends alike", "deploy/x.sh", "cd $dir/work/main /lib/work/x ./work/", ""},
		{"too large", "hubapi/x.go", head + strings.Repeat("\n", sizeLimit), "hubapi has 4002 lines"},
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

// TestWaitsAreFound shows the rule on waits tests that wait in real time, and tests in bubbles.
func TestWaitsAreFound(t *testing.T) {
	const bubble = "func bubble(f func()) { synctest.Test(t, func(*testing.T) { f() }) }\n"
	tests := []struct{ name, text, want string }{
		{"sleep", "func TestX() { time.Sleep(d) }", "TestX: it sleeps"},
		{"in a bubble", "func TestX() { synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }", ""},
		{"beside a bubble", "func TestX() { time.Sleep(1); synctest.Test(t, func(*testing.T) {}) }", "it sleeps"},
		{"in the bubble of a helper", bubble + "func TestX() { bubble(func() { <-time.After(1) }) }", ""},
		{"a helper of bubbles", "func wait() { time.Sleep(1) }\nfunc TestX() { synctest.Test(t, func(*testing.T) { wait() }) }", ""},
		{"a helper of both", "func wait() { time.Sleep(1) }\nfunc TestX() { synctest.Test(t, func(*testing.T) { wait() }) }\nfunc TestY() { wait() }", "wait: it sleeps"},
		{"a method of bubbles", "type site int\nfunc (s site) wait() { time.Sleep(1) }\nfunc TestX() { synctest.Test(t, func(*testing.T) { site(1).wait() }) }", ""},
		{"a table for a bubble", bubble + "func wait() { time.Sleep(1) }\nfunc TestX() { for _, f := range []func(){wait} { bubble(f) } }", ""},
		{"a benchmark", "func BenchmarkX() { time.Sleep(1) }", ""},
		{"short limit", "func TestX() { context.WithTimeout(ctx, 30*time.Second) }", "TestX: context.WithTimeout of 30s"},
		{"long limit", "func TestX() { context.WithTimeout(ctx, time.Minute) }", ""},
		{"short deadline", "func TestX() { c.SetReadDeadline(time.Now().Add(time.Second)) }", "c.SetReadDeadline of 1s"},
		{"no deadline", "func TestX() { c.SetReadDeadline(time.Time{}) }", ""},
		{"a constant", "const patience = 5 * time.Second\nfunc TestX() { <-time.After(patience) }", "time.After of 5s"},
		{"given to a helper", "func until(limit time.Duration) { <-time.After(limit) }\nfunc TestX() { until(time.Second) }", "TestX: until of 1s"},
		{"short bound", "func TestX() { if took := time.Since(begun); err != nil || took > 2*time.Second { t.Error() } }", "TestX: a bound of 2s"},
		{"at least", "func TestX() { if time.Since(begun) < time.Second { t.Error() } }", ""},
		{"excepted", "func excepted() { time.Sleep(1) }\nfunc TestX() { excepted() }", ""},
	}
	for _, tt := range tests {
		tree := fstest.MapFS{"spawner/x_test.go": {Data: []byte("package p\n" + tt.text)}}
		packages, err := sources(tree)
		if err != nil {
			t.Fatal(err)
		}
		excepted := map[string]string{}
		if tt.name == "excepted" {
			excepted["spawner/x_test.go excepted"] = "it must"
		}
		got := strings.Join(waitFaults(packages, excepted), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: faults %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := waitFaults(nil, map[string]string{"x_test.go TestX": "gone"}); len(got) != 1 {
		t.Errorf("an exception that nobody needs: %q", got)
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
	return slices.Concat(importFaults(packages, rules()), reachFaults(packages), styleFaults(packages), sizeFaults(packages), waitFaults(packages, nil), textFaults(all), roomFaults(entries))
}
