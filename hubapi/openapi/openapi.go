// Package openapi has the document of the native API, OpenAPI 3.1, and shows it as a page.
//
// The document is made of the routes of hubapi/server and of the types of hubapi with their comments; a test there
// compares it, and writes it anew. Nothing here is to be written by hand.
package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
)

// Document is the document, JSON.
//
//go:embed openapi.json
var Document []byte

//go:embed page.html
var pageTemplate string

// Page returns the document as a page of HTML that needs nothing else, no script either.
var Page = sync.OnceValues(func() ([]byte, error) {
	var d document
	if err := json.Unmarshal(Document, &d); err != nil {
		return nil, fmt.Errorf("read the document of the API: %w", err)
	}
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the page of the API: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, d)
	return out.Bytes(), err
})

// document is what the page shows of an OpenAPI document.
type document struct {
	Info struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Description string `json:"description"`
	} `json:"info"`
	Servers []struct {
		URL string `json:"url"`
	} `json:"servers"`
	Tags []struct {
		Name string `json:"name"`
	} `json:"tags"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Method, Path string
	ID           string            `json:"operationId"`
	Summary      string            `json:"summary"`
	Tags         []string          `json:"tags"`
	Parameters   []parameter       `json:"parameters"`
	Body         *body             `json:"requestBody"`
	Responses    map[string]body   `json:"responses"`
	Security     []json.RawMessage `json:"security"`
}

type parameter struct {
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
}

type body struct {
	Description string           `json:"description"`
	Content     map[string]media `json:"content"`
}

type media struct {
	Schema *schema `json:"schema"`
}

// schema is one of JSON Schema; true, which is any value, is the empty one.
type schema struct {
	Ref         string     `json:"$ref"`
	Type        string     `json:"type"`
	Format      string     `json:"format"`
	Description string     `json:"description"`
	Items       *schema    `json:"items"`
	Values      *values    `json:"additionalProperties"`
	Properties  properties `json:"properties"`
	Required    []string   `json:"required"`
	OneOf       []schema   `json:"oneOf"`
}

// UnmarshalJSON takes a schema, true or false.
func (s *schema) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	type plain schema
	return json.Unmarshal(text, (*plain)(s))
}

// values are what a map has, or whether there may be any.
type values struct{ *schema }

// UnmarshalJSON takes a schema, true or false.
func (v *values) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	return json.Unmarshal(text, &v.schema)
}

type property struct {
	Name     string
	Required bool
	schema
}

// properties are in the order of the document.
type properties []property

// UnmarshalJSON keeps the order.
func (p *properties) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		one := property{Name: fmt.Sprint(name)}
		if err := d.Decode(&one.schema); err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

// Of returns the operations of a group, by their paths.
func (d document) Of(tag string) (all []operation) {
	for path, methods := range d.Paths {
		for method, o := range methods {
			if slices.Contains(o.Tags, tag) {
				o.Method, o.Path = strings.ToUpper(method), path
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	return all
}

// Open reports whether everybody may ask.
func (o operation) Open() bool { return len(o.Security) > 0 }

// Answers are what comes of success.
func (o operation) Answers() map[string]body {
	all := map[string]body{}
	for status, b := range o.Responses {
		if status != "default" {
			all[status] = b
		}
	}
	return all
}

// Name is the schema that is referred to; empty: none.
func (s schema) Name() string { return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:] }

// Words say what a value is, but for the name of a schema that is referred to.
func (s schema) Words() string {
	switch {
	case s.Ref != "":
		return ""
	case s.Items != nil:
		return "list of " + s.Items.Words()
	case s.Values != nil && s.Values.schema != nil:
		return "object of " + s.Values.Words()
	case s.Type == "":
		return "any"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// Within is the schema at the end of lists and maps.
func (s schema) Within() schema {
	switch {
	case s.Items != nil:
		return s.Items.Within()
	case s.Values != nil && s.Values.schema != nil:
		return s.Values.Within()
	}
	return s
}

// Optional reports whether a field may be left out.
func (s schema) Optional(name string) bool { return !slices.Contains(s.Required, name) }
