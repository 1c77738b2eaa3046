package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// figure is one measure of the tree. It must not grow beyond what it is now, and is to come down to what is wanted.
type figure struct {
	what   string
	is     float64
	most   float64 // what it is allowed to be today: it is lowered with each step
	wanted float64
	where  string // the worst places
}

// TestFigures prints how large the rooms are, and fails where one has grown.
func TestFigures(t *testing.T) {
	tree := house(t)
	packages, err := sources(tree)
	if err != nil {
		t.Fatal(err)
	}
	all, err := texts(tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-64s %9s %9s %9s", "", "is", "at most", "wanted")
	for _, f := range figures(packages, all) {
		t.Logf("%-64s %9.4g %9.4g %9.4g  %s", f.what, f.is, f.most, f.wanted, f.where)
		if f.is > f.most {
			t.Errorf("%s: %.4g, and may be %.4g at most: %s", f.what, f.is, f.most, f.where)
		}
	}
}

func figures(packages map[string][]source, all map[string]string) []figure {
	code := map[string][]source{} // without tests
	for dir, list := range packages {
		code[dir] = slices.DeleteFunc(slices.Clone(list), func(s source) bool { return s.test })
	}
	methods, worst := mostMethods(code)
	large, rooms := largePackages(code, all, 4000)
	lines, wide := countLines(code, all)
	branches, contexts := countNodes(code)
	pairs := similarStructs(code)
	return []figure{
		{"methods of one type, at most", float64(methods), 139, 60, worst},
		{"fields of engine.Manager", float64(fieldsOf(code["spawner/engine"], "Manager")), 11, 15, ""},
		{"fields of engine.Config", float64(fieldsOf(code["spawner/engine"], "Config")), 20, 20, ""},
		{"fields of spawner.Workload", float64(fieldsOf(code["spawner"], "Workload")), 30, 30, ""},
		{"packages of more than 4,000 lines", float64(large), 1, 1, rooms},
		{"comparisons with a kind of workload", float64(compared(code, isKind)), 10, 20, ""},
		{"uses of .Remote in the engine", float64(remoteUses(code["spawner/engine"])), 15, 10, ""},
		{"backends compared by name outside of their packages", float64(compared(code, isBackendName)), 0, 0, ""},
		{"files of internal/cli that are of Linux alone", float64(ofLinux(all, "internal/cli/")), 15, 15, ""},
		{"pairs of structs that share five fields or more", float64(len(pairs)), 57, 30, strings.Join(pairs[:min(3, len(pairs))], ", ")},
		{"hand-written from_json in Python", float64(countIn(all, "def from_json(")), 0, 0, ""},
		{"modules of the Python package", float64(len(pythonModules(all))), 33, 30, ""},
		{"lines of more than 120 columns, of 100", 100 * float64(wide) / float64(lines), 0.9, 1, ""},
		{"branches in 1,000 lines of code", 1000 * float64(branches) / float64(lines), 189, 165, ""},
		{"contexts in structs", float64(contexts), 5, 5, ""},
	}
}

// mostMethods finds the type that has most methods.
func mostMethods(code map[string][]source) (most int, name string) {
	count := map[string]int{}
	for dir, list := range code {
		for _, s := range list {
			for _, d := range s.file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					of := dir + "." + strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*")
					if count[of]++; count[of] > most {
						most, name = count[of], of
					}
				}
			}
		}
	}
	return most, name
}

// fieldsOf counts the fields of a struct, embedded ones as one each.
func fieldsOf(list []source, name string) (n int) {
	structs(list, func(of string, st *ast.StructType) {
		if of == name {
			for _, f := range st.Fields.List {
				n += max(1, len(f.Names))
			}
		}
	})
	return n
}

func structs(list []source, each func(name string, st *ast.StructType)) {
	for _, s := range list {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if ts, ok := n.(*ast.TypeSpec); ok {
				if st, ok := ts.Type.(*ast.StructType); ok {
					each(ts.Name.Name, st)
				}
			}
			return true
		})
	}
}

func largePackages(code map[string][]source, all map[string]string, bound int) (n int, which string) {
	var words []string
	for _, dir := range sorted(code) {
		lines := 0
		for _, s := range code[dir] {
			lines += strings.Count(all[s.path], "\n")
		}
		if lines > bound {
			words = append(words, fmt.Sprintf("%s %d", dir, lines))
		}
	}
	return len(words), strings.Join(words, ", ")
}

// countLines counts the lines that are code, and of all lines those that are wider than 120 columns, a tab being four.
func countLines(code map[string][]source, all map[string]string) (lines, wide int) {
	for _, list := range code {
		for _, s := range list {
			for l := range strings.Lines(all[s.path]) {
				if text := strings.TrimSpace(l); text != "" && !strings.HasPrefix(text, "//") {
					lines++
				}
				if len(strings.ReplaceAll(strings.TrimRight(l, "\n"), "\t", "    ")) > 120 {
					wide++
				}
			}
		}
	}
	return lines, wide
}

func countNodes(code map[string][]source) (branches, contexts int) {
	for _, list := range code {
		for _, s := range list {
			ast.Inspect(s.file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.CaseClause, *ast.CommClause:
					branches++
				case *ast.BinaryExpr:
					if n.Op == token.LAND || n.Op == token.LOR {
						branches++
					}
				case *ast.StructType:
					for _, f := range n.Fields.List {
						if types.ExprString(f.Type) == "context.Context" {
							contexts++
						}
					}
				}
				return true
			})
		}
	}
	return branches, contexts
}

// compared counts comparisons and cases, outside of backends, with what is true of.
func compared(code map[string][]source, is func(ast.Expr) bool) (n int) {
	for dir, list := range code {
		if backend := path.Dir(dir) == "spawner" && slices.Contains(backendNames(), path.Base(dir)); backend || strings.HasPrefix(dir, "deploy/") {
			continue
		}
		for _, s := range list {
			ast.Inspect(s.file, func(x ast.Node) bool {
				switch x := x.(type) {
				case *ast.BinaryExpr:
					if (x.Op == token.EQL || x.Op == token.NEQ) && (is(x.X) || is(x.Y)) {
						n++
					}
				case *ast.CaseClause:
					if slices.ContainsFunc(x.List, is) {
						n++
					}
				}
				return true
			})
		}
	}
	return n
}

func backendNames() []string { return []string{"docker", "local", "htcondor", "slurm", "arc"} }

func isBackendName(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && slices.Contains(backendNames(), strings.Trim(lit.Value, `"`))
}

// isKind reports whether an expression is one of the kinds of workload.
func isKind(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || types.ExprString(sel.X) != "spawner" {
		return false
	}
	return slices.Contains([]string{"Lab", "Code", "Job", "Kernel"}, sel.Sel.Name)
}

func remoteUses(list []source) (n int) {
	for _, s := range list {
		ast.Inspect(s.file, func(x ast.Node) bool {
			if sel, ok := x.(*ast.SelectorExpr); ok && sel.Sel.Name == "Remote" && types.ExprString(sel.X) != "spawner" {
				n++
			}
			return true
		})
	}
	return n
}

func ofLinux(all map[string]string, dir string) (n int) {
	for name, text := range all {
		if strings.HasPrefix(name, dir) && path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && strings.Contains(text, "//go:build linux") {
			n++
		}
	}
	return n
}

// similarStructs finds pairs of structs of different packages that share the names and types of five fields or more.
// What a room needs of others (its Config) is no data, and is not counted.
func similarStructs(code map[string][]source) (pairs []string) {
	fields, names := map[string]map[string]bool{}, []string{}
	for _, dir := range sorted(code) {
		structs(code[dir], func(name string, st *ast.StructType) {
			key := dir + "." + name
			mine := map[string]bool{}
			for _, f := range st.Fields.List {
				kind := types.ExprString(f.Type)
				for _, n := range f.Names {
					mine[strings.ToLower(n.Name)+" "+kind[strings.LastIndexByte(kind, '.')+1:]] = true
				}
			}
			if fields[key] == nil && len(mine) >= 5 && name != "Config" {
				fields[key] = mine
				names = append(names, key)
			}
		})
	}
	for i, a := range names {
		for _, b := range names[i+1:] {
			same := 0
			for f := range fields[a] {
				if fields[b][f] {
					same++
				}
			}
			if same >= 5 {
				pairs = append(pairs, a+" and "+b)
			}
		}
	}
	return pairs
}

// pythonModules returns the text of each module of the Python package.
func pythonModules(all map[string]string) (texts []string) {
	for name, text := range all {
		if strings.HasPrefix(name, "notebooks/src/") && path.Ext(name) == ".py" {
			texts = append(texts, text)
		}
	}
	return texts
}

// countIn counts a phrase in the Python package.
func countIn(all map[string]string, phrase string) (n int) {
	for _, text := range pythonModules(all) {
		n += strings.Count(text, phrase)
	}
	return n
}
