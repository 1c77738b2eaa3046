package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is one change to a line.
type mutant struct {
	path         string
	line, column int
	from, to     string
	text         string // the line as it is
	source       []byte // the file as changed
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d %s -> %s | %s", m.path, m.line, m.column, m.from, m.to, m.text)
}

// others are what stands for an operator: of an order its bound is moved, and then it is turned round.
var others = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"},
}

// changes are the mutants of one file: operators, negations, and the answers true and false. What only hands an error
// on is no decision, and the text of a message is none.
func changes(path string, source []byte) (all []mutant, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(source), "\n")
	change := func(pos token.Pos, from, to string) {
		p := set.Position(pos)
		changed := slices.Concat(source[:p.Offset], []byte(to), source[p.Offset+len(from):])
		all = append(all, mutant{path, p.Line, p.Column, from, to, strings.TrimSpace(lines[p.Line-1]), changed})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if isNil(n.Y) && isError(n.X) || isText(n.X) || isText(n.Y) {
				return true
			}
			for _, to := range others[n.Op] {
				change(n.OpPos, n.Op.String(), to)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				change(n.OpPos, "!", "")
			}
		case *ast.ReturnStmt:
			for _, r := range n.Results {
				if id, ok := r.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
					change(id.Pos(), id.Name, map[string]string{"true": "false", "false": "true"}[id.Name])
				}
			}
		}
		return true
	})
	return all, nil
}

func isNil(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "nil"
}

func isError(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && strings.HasPrefix(id.Name, "err")
}

// isText tells whether a sum has a literal text in it.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING && e.Value != `""`
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isText(e.X) || isText(e.Y))
	}
	return false
}
