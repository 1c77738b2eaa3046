package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shortest is the shortest time limit that a test may have in real time. A loaded machine misses shorter ones.
const shortest = time.Minute

// waits lists what waits in real time or sets a time limit, and which argument says how long. Methods stand without
// their receiver. Functions of test code that hand a parameter on to one of these are found by the rule.
func waits() map[string]int {
	return map[string]int{
		"time.Sleep": 0, "time.After": 0, "time.AfterFunc": 0, "time.NewTimer": 0, "time.NewTicker": 0, "time.Tick": 0,
		"context.WithTimeout": 1, "context.WithDeadline": 1, "context.WithTimeoutCause": 1, "context.WithDeadlineCause": 1,
		"net.DialTimeout": 2, ".SetDeadline": 0, ".SetReadDeadline": 0, ".SetWriteDeadline": 0,
	}
}

// waitFaults finds tests that wait in real time: time.Sleep, and time limits below a minute, outside the bubbles of
// testing/synctest. Test code is what stands in _test.go files and in packages that import testing.
//
// It goes by names and knows no types. A declaration counts as outside when a test, or another declaration that is
// outside, names it where no bubble is around it; a method, when its type is outside and it is exported or named there.
// Where a function has a bubble, the functions in its tables and variables count as inside. Limits that are no
// constants, such as fields, are taken for long ones, unless they are a parameter: then the callers' constants are
// looked at.
func waitFaults(packages map[string][]source, excepted map[string]string) (faults []string) {
	w := waiting{constants: constants(packages), at: waits()}
	used := map[string]bool{}
	var codes []*testCode
	for _, dir := range sorted(packages) {
		if c := testCodeOf(packages[dir]); c != nil {
			codes = append(codes, c)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, c := range codes {
			grown = w.learn(c) || grown
		}
	}
	for _, c := range codes {
		outside := c.outside()
		for _, d := range c.decls {
			if !outside[d.key()] {
				continue
			}
			for _, n := range d.waits {
				where := d.file.path + " " + d.name
				what := w.fault(c, d, n)
				if what == "" {
					continue
				}
				used[where] = true
				if excepted[where] == "" {
					at := d.file.set.Position(n.Pos())
					faults = append(faults, fmt.Sprintf("%s:%d: %s: %s in real time: %s", d.file.path, at.Line, d.name, what,
						"use testing/synctest, wait for an event, or as long as testenv.Hang"))
				}
			}
		}
	}
	for _, where := range sorted(excepted) {
		if !used[where] {
			faults = append(faults, where+" needs no exception")
		}
	}
	return faults
}

// testCode is the test code of a package.
type testCode struct {
	name     string
	support  bool // a package for tests, all of which runs outside bubbles
	decls    []*decl
	bubbling map[string]bool // functions that run a function they are given in a bubble
}

// decl is one declaration of a package.
type decl struct {
	file     source
	name     string
	receiver string // of a method, its type
	node     ast.Node
	names    map[string]bool // what it names outside bubbles
	waits    []ast.Node      // its calls and comparisons outside bubbles
}

func (d *decl) key() string { return d.receiver + "." + d.name }

func testCodeOf(files []source) *testCode {
	c := &testCode{bubbling: map[string]bool{}}
	c.support = slices.ContainsFunc(files, func(s source) bool { return !s.test && slices.Contains(s.imports, "testing") })
	for _, s := range files {
		if s.test || c.support {
			c.name = path.Base(path.Dir(s.path))
			c.declare(s)
		}
	}
	if len(c.decls) == 0 {
		return nil
	}
	for grown := true; grown; {
		grown = false
		for _, d := range c.decls {
			grown = c.look(d) || grown
		}
	}
	return c
}

// declare notes what a file declares.
func (c *testCode) declare(s source) {
	for _, node := range s.file.Decls {
		switch node := node.(type) {
		case *ast.FuncDecl:
			d := &decl{file: s, name: node.Name.Name, node: node}
			if node.Recv != nil {
				d.receiver = typeName(node.Recv.List[0].Type)
			}
			c.decls = append(c.decls, d)
		case *ast.GenDecl:
			for _, spec := range node.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					c.decls = append(c.decls, &decl{file: s, name: spec.Name.Name, node: spec})
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						c.decls = append(c.decls, &decl{file: s, name: name.Name, node: spec})
					}
				}
			}
		}
	}
}

// typeName gives the name of a receiver's type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	}
	return ""
}

// look notes what a declaration names and calls outside bubbles. It reports whether the declaration runs in a bubble
// what it is given, which was not known.
func (c *testCode) look(d *decl) (found bool) {
	d.names, d.waits = map[string]bool{}, nil
	given := map[string]bool{}
	if fn, ok := d.node.(*ast.FuncDecl); ok {
		for _, p := range fn.Type.Params.List {
			if _, ok := p.Type.(*ast.FuncType); ok {
				for _, name := range p.Names {
					given[name.Name] = true
				}
			}
		}
	}
	hasBubble := contains(d.node, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && c.isBubble(call)
	})
	var walk func(n ast.Node, inside bool)
	walk = func(n ast.Node, inside bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if !inside && hasBubble && n.Type != nil && contains(n.Type, isFuncType) { // a table of what runs in it
					walk(n, true)
					return false
				}
			case *ast.AssignStmt:
				if !inside && hasBubble && slices.ContainsFunc(n.Rhs, isFuncLit) {
					walk(n, true)
					return false
				}
			case *ast.KeyValueExpr:
				if _, field := n.Key.(*ast.Ident); field {
					walk(n.Value, inside)
					return false
				}
			case *ast.SelectorExpr:
				walk(n.X, inside)
				d.names["."+n.Sel.Name] = d.names["."+n.Sel.Name] || !inside
				return false
			case *ast.Ident:
				if !inside {
					d.names[n.Name] = true
				} else if given[n.Name] && !c.bubbling[d.name] {
					c.bubbling[d.name], found = true, true
				}
			case *ast.IfStmt:
				if !inside {
					d.waits = append(d.waits, tooLong(n)...)
				}
			case *ast.CallExpr:
				if !inside {
					d.waits = append(d.waits, n)
				}
				if c.isBubble(n) {
					walk(n.Fun, inside)
					for _, arg := range n.Args {
						walk(arg, true)
					}
					return false
				}
			}
			return true
		})
	}
	walk(d.node, false)
	for _, name := range locals(d.node) {
		delete(d.names, name)
		delete(d.names, "."+name) // a field
	}
	return found
}

func contains(n ast.Node, is func(ast.Node) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && is(n)
		return !found
	})
	return found
}

func isFuncType(n ast.Node) bool { _, ok := n.(*ast.FuncType); return ok }

func isFuncLit(e ast.Expr) bool { _, ok := e.(*ast.FuncLit); return ok }

// isBubble reports whether a call runs functions that it is given in a bubble.
func (c *testCode) isBubble(call *ast.CallExpr) bool {
	name := called(call)
	return name == "synctest.Test" || c.bubbling[name]
}

// tooLong gives the comparisons by which a test fails after a time: `if time.Since(begun) > limit`, or the same of
// `took := time.Since(begun)`.
func tooLong(n *ast.IfStmt) (found []ast.Node) {
	isSince := func(n ast.Node) bool { call, ok := n.(*ast.CallExpr); return ok && called(call) == "time.Since" }
	took := ""
	if init, ok := n.Init.(*ast.AssignStmt); ok && contains(init.Rhs[0], isSince) {
		took = init.Lhs[0].(*ast.Ident).Name
	}
	ast.Inspect(n.Cond, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if !ok || b.Op != token.GTR && b.Op != token.GEQ {
			return true
		}
		if x, ok := b.X.(*ast.Ident); isSince(b.X) || ok && x.Name == took {
			found = append(found, b)
		}
		return true
	})
	return found
}

// locals gives the names that a declaration declares within itself.
func locals(n ast.Node) (names []string) {
	add := func(all ...ast.Expr) {
		for _, e := range all {
			if id, ok := e.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		}
		return true
	})
	return names
}

// called names the function of a call: pkg.F, F, or .M for what may be a method.
func called(call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		if x, ok := fn.X.(*ast.Ident); ok {
			return x.Name + "." + fn.Sel.Name
		}
		return "." + fn.Sel.Name
	}
	return ""
}

// outside returns the keys of the declarations that run outside bubbles.
func (c *testCode) outside() map[string]bool {
	keys, named := map[string]bool{}, map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, d := range c.decls {
			if !keys[d.key()] && (c.support || c.reached(d, keys, named)) {
				keys[d.key()], grown = true, true
				for name, outside := range d.names {
					named[name] = named[name] || outside
				}
			}
		}
	}
	return keys
}

func (c *testCode) reached(d *decl, keys, named map[string]bool) bool {
	if d.receiver != "" {
		return keys["."+d.receiver] && (named["."+d.name] || ast.IsExported(d.name))
	}
	isRoot := func(prefix string) bool { return strings.HasPrefix(d.name, prefix) }
	return named[d.name] || d.name == "_" || slices.ContainsFunc([]string{"Test", "Fuzz", "Example"}, isRoot)
}

// waiting knows what waits, and how long.
type waiting struct {
	constants map[string]ast.Expr // by package and name
	at        map[string]int
}

// constants gives the constants of all packages. Those of functions count as the package's.
func constants(packages map[string][]source) map[string]ast.Expr {
	all := map[string]ast.Expr{}
	for dir, files := range packages {
		for _, s := range files {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if g, ok := n.(*ast.GenDecl); ok && g.Tok == token.CONST {
					for _, spec := range g.Specs {
						v := spec.(*ast.ValueSpec)
						for i := range min(len(v.Names), len(v.Values)) {
							all[path.Base(dir)+"."+v.Names[i].Name] = v.Values[i]
						}
					}
				}
				return true
			})
		}
	}
	return all
}

// learn finds functions that hand a parameter on as the time that something waits.
func (w *waiting) learn(c *testCode) (found bool) {
	for _, d := range c.decls {
		fn, ok := d.node.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var params []string
		for _, p := range fn.Type.Params.List {
			for _, name := range p.Names {
				params = append(params, name.Name)
			}
		}
		for _, n := range d.waits {
			arg := w.limit(c, n)
			if arg == nil {
				continue
			}
			ast.Inspect(arg, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if i := slices.Index(params, id.Name); i >= 0 {
						key := c.name + "." + d.name
						if d.receiver != "" {
							key = c.name + "..." + d.name
						}
						if _, known := w.at[key]; !known {
							w.at[key], found = i, true
						}
					}
				}
				return true
			})
		}
	}
	return found
}

// limit gives the argument that says how long a call may wait, or what a time is compared with; nil for other calls.
func (w *waiting) limit(c *testCode, n ast.Node) ast.Expr {
	if compared, ok := n.(*ast.BinaryExpr); ok {
		return compared.Y
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	name := called(call)
	_, method, _ := strings.Cut(name, ".")
	for _, key := range []string{name, "." + method, c.name + "." + name, c.name + "..." + method} {
		if i, ok := w.at[key]; ok && i < len(call.Args) {
			return call.Args[i]
		}
	}
	return nil
}

// fault says what is wrong with a call or a comparison.
func (w *waiting) fault(c *testCode, d *decl, n ast.Node) string {
	call, isCall := n.(*ast.CallExpr)
	if isCall && called(call) == "time.Sleep" {
		return "it sleeps"
	}
	arg := w.limit(c, n)
	if arg == nil {
		return ""
	}
	v, ok := w.value(c, arg, 0)
	switch {
	case !ok || v >= float64(shortest):
		return ""
	case isCall:
		return fmt.Sprintf("%s of %s", called(call), time.Duration(v))
	default:
		return fmt.Sprintf("a bound of %s", time.Duration(v))
	}
}

// value returns the value of a constant duration, or of the duration that is added to a time.
func (w *waiting) value(c *testCode, e ast.Expr, depth int) (float64, bool) {
	if depth > 20 {
		return 0, false
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(strings.ReplaceAll(e.Value, "_", ""), 64)
		return v, err == nil
	case *ast.ParenExpr:
		return w.value(c, e.X, depth+1)
	case *ast.Ident:
		if k, ok := w.constants[c.name+"."+e.Name]; ok {
			return w.value(c, k, depth+1)
		}
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		if !ok {
			return 0, false
		}
		if k, ok := w.constants[x.Name+"."+e.Sel.Name]; ok {
			return w.value(c, k, depth+1)
		}
		unit, ok := map[string]time.Duration{
			"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		}[e.Sel.Name]
		return float64(unit), ok && x.Name == "time"
	case *ast.CallExpr:
		if name := called(e); (name == ".Add" || name == "time.Duration") && len(e.Args) == 1 {
			return w.value(c, e.Args[0], depth+1)
		}
	case *ast.BinaryExpr:
		x, okX := w.value(c, e.X, depth+1)
		y, okY := w.value(c, e.Y, depth+1)
		v, ok := map[token.Token]float64{token.ADD: x + y, token.SUB: x - y, token.MUL: x * y, token.QUO: x / y}[e.Op]
		return v, ok && okX && okY
	}
	return 0, false
}

// excepted lists functions that may wait in real time, and why.
func excepted() map[string]string {
	const (
		nothing = "it waits for what must not come, and no event comes after it"
		limit   = "the time limit is what ends the call that is tested"
		cause   = "what real programs are put through lasts so long"
		pace    = "it acts at the moment in which something is there"
	)
	return map[string]string{
		"hubapi/server/proxy_test.go TestProxyAnswersWhileTheRequestGoesOut": nothing,
		"internal/agent/sshd/idle_test.go TestIdleConnections":               "OpenSSH says each second that it is there",
		"internal/cli/stub_scans_test.go events":                             "the program that follows shows what goes on five times a second",
		"internal/e2e/htcondor_faults_test.go keeps":                         cause,
		"internal/e2e/htcondor_paused_test.go TestHTCondorPaused":            cause,
		"internal/e2e/hub_outpost_test.go outpostRestarts":                   cause,
		"internal/e2e/jobs_faults_test.go killWhen":                          pace,
		"internal/e2e/jobs_tries_test.go watched":                            cause,
		"internal/e2e/kernels_services_test.go cellsAcrossADeath":            cause,
		"internal/e2e/ssh_faults_test.go killedAgent":                        cause,
		"internal/e2e/ssh_flood_test.go endedAll":                            "of an open connection nothing comes",
		"internal/e2e/ssh_hub_test.go firstConnect":                          nothing,
		"internal/gpu/mps/fake_test.go playDaemon":                           "a fake program looks whether its test is over",
		"internal/sshauth/withdraw_test.go TestWithdrawAtOnce":               "any time does: others run meanwhile, as far as they come",
		"internal/sshgate/arrive_test.go TestLost":                           "a connection that is not told of its end would see it after 15 s",
		"internal/sshgate/starts_test.go TestInterrupt":                      nothing,
		"internal/tunnel/explain_test.go TestDialIsBounded":                  limit,
		"internal/tunnel/tunnel_test.go TestReadIsWoken":                     limit,
		"kernels/limits_test.go pause":                                       "pings come in real time",
		"spawner/docker/real_pull_test.go breakOff":                          "the whole download would last some seconds",
		"spawner/htcondor/orphans_test.go TestOrphan":                        limit,
		"spawner/htcondor/condortest/condortest_test.go TestOutwards":        nothing,
		"spawner/local/kill_test.go dieWhen":                                 pace,
		"spawner/spawnertest/cases.go stopEndedContext":                      limit,
	}
}
