package archtest

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file as the rules see it.
type source struct {
	path    string
	test    bool
	doc     bool // has a package comment
	imports []string
	inits   bool // declares func init()
	file    *ast.File
	set     *token.FileSet
}

// house opens the module's root.
func house(t *testing.T) fs.FS {
	t.Helper()
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Fatal(err)
	}
	return os.DirFS("../..")
}

// sources parses the module's Go files, by the directory of their package. A nested module is its own house.
func sources(tree fs.FS) (map[string][]source, error) {
	packages := map[string][]source{}
	err := walk(tree, func(name string) error {
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			return nil
		}
		s, err := parse(tree, name)
		packages[path.Dir(name)] = append(packages[path.Dir(name)], s)
		return err
	})
	return packages, err
}

// walk visits the files that belong to the tree: what is hidden, built or installed does not.
func walk(tree fs.FS, visit func(name string) error) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // another test's file that is gone by now
			return nil
		case err != nil:
			return err
		case d.IsDir() && name != "." && notOurs(tree, name):
			return fs.SkipDir
		case !d.Type().IsRegular(), name == ".git": // of a linked work tree it is a file
			return nil
		}
		return visit(name)
	})
}

func notOurs(tree fs.FS, dir string) bool {
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") && base != ".ci" || strings.HasSuffix(base, ".egg-info") {
		return true
	}
	if slices.Contains([]string{"node_modules", "__pycache__", "screenshots"}, base) || slices.Contains([]string{"notebooks/build", "notebooks/dist"}, dir) {
		return true
	}
	_, err := fs.Stat(tree, dir+"/go.mod")
	return err == nil
}

func parse(tree fs.FS, name string) (source, error) {
	s := source{path: name, test: strings.HasSuffix(name, "_test.go")}
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return s, err
	}
	s.set = token.NewFileSet()
	f, err := parser.ParseFile(s.set, name, text, parser.ParseComments)
	if err != nil {
		return s, err
	}
	s.file = f
	s.doc = f.Doc != nil
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return s, err
		}
		s.imports = append(s.imports, p)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		s.inits = s.inits || ok && fn.Recv == nil && fn.Name.Name == "init"
	}
	return s, nil
}

// texts returns every text file of the tree.
func texts(tree fs.FS) (map[string]string, error) {
	all := map[string]string{}
	err := walk(tree, func(name string) error {
		if name == "slipway" || strings.HasPrefix(name, "slipway-gpu") || path.Ext(name) == ".test" || path.Ext(name) == ".out" { // built
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		all[name] = string(text)
		return nil
	})
	return all, err
}

// sorted returns the keys of m in order, so that faults come in the same order each time.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
