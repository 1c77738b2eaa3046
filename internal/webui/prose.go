package webui

import (
	"html/template"
	"strings"
)

// prose is text as people read it: what stands between backticks, as commands and names do in the service's words, is
// shown as code. All of it is escaped, whoever wrote it. A backtick without its second stays what it is.
func prose(words string) template.HTML {
	var out strings.Builder
	for {
		before, rest, begins := strings.Cut(words, "`")
		code, after, ends := strings.Cut(rest, "`")
		if !begins || !ends || code == "" {
			out.WriteString(template.HTMLEscapeString(words))
			return template.HTML(out.String()) // every piece of text in it has been escaped
		}
		out.WriteString(template.HTMLEscapeString(before) + "<code>" + template.HTMLEscapeString(code) + "</code>")
		words = after
	}
}
