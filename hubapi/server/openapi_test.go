package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

var update = flag.Bool("update", false, "write the document of the API anew")

const documentFile = "hubapi/openapi/openapi.json"

// TestOpenAPI holds the document of the API to the routes that there are, and to the types that they take and answer.
func TestOpenAPI(t *testing.T) {
	h := start(t, newFake(), func(c *Config) {
		c.Link = func(http.ResponseWriter, *http.Request) error { return nil }
	})
	t.Chdir("../..") // where the comments of the types are read
	d := newDocument(t)
	left := operations()
	routes := h.Public().(chi.Routes)
	err := chi.Walk(routes, func(method, route string, handler http.Handler, _ ...func(http.Handler) http.Handler) error {
		path, below := strings.CutPrefix(strings.TrimSuffix(route, "/"), hubapi.Base)
		if !below || strings.HasSuffix(path, "*") {
			return nil
		}
		o, described := operations()[method+" "+path]
		if !described {
			t.Errorf("%s %s is not described in operations()", method, path)
		}
		delete(left, method+" "+path)
		e, _ := handler.(web.Endpoint)
		d.add(method, path, o, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range left {
		t.Errorf("operations() describes %s, which is no route", name)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(d.root()); err != nil {
		t.Fatal(err)
	}
	made := strings.ReplaceAll(text.String(), "#/$defs/", "#/components/schemas/")
	if *update {
		if err := os.WriteFile(documentFile, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(kept), "\n"), strings.Split(made, "\n")); diff != "" {
		const write = "go test ./hubapi/server -run TestOpenAPI -update"
		t.Errorf("%s is not of these routes and types; `%s` writes it:\n%s", documentFile, write, diff)
	}
}

// object is a JSON object. Its keys are written in order.
type object = map[string]any

// document is an OpenAPI 3.1 document in the making (https://spec.openapis.org/oas/v3.1.0).
type document struct {
	t         *testing.T
	reflector *jsonschema.Reflector
	schemas   map[string]*jsonschema.Schema
	answered  map[string]bool // schemas that answers have
	paths     object
}

func newDocument(t *testing.T) *document {
	d := &document{
		t: t, reflector: &jsonschema.Reflector{Anonymous: true},
		schemas: map[string]*jsonschema.Schema{}, answered: map[string]bool{}, paths: object{},
	}
	if err := d.reflector.AddGoComments("slipway", "./hubapi", jsonschema.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	for name, text := range d.reflector.CommentMap {
		d.reflector.CommentMap[name] = strings.Join(strings.Fields(text), " ")
	}
	return d
}

var (
	parameter = regexp.MustCompile(`\{(\w+)\}`)
	noWord    = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// add adds a route.
func (d *document) add(method, path string, o operation, e web.Endpoint) {
	status := max(e.Status, o.status)
	if status == 0 {
		status = http.StatusOK
	}
	answer := object{"description": http.StatusText(status)}
	switch out := typeOf(e.Response, o.out); {
	case o.sends != "" && out != nil:
		answer["content"] = object{o.sends: object{"schema": d.schema(out, false)}}
	case o.sends != "":
		answer["content"] = object{o.sends: object{}}
	case o.or != nil:
		either := []any{d.schema(out, false), d.schema(reflect.TypeOf(o.or), false)}
		answer["content"] = object{"application/json": object{"schema": object{"oneOf": either}}}
	case out != nil:
		answer["content"] = object{"application/json": object{"schema": d.schema(out, false)}}
	}
	op := object{
		"summary": o.does, "operationId": operationID(method, path), "tags": []string{groupOf(d.t, path)},
		"responses": object{strconv.Itoa(status): answer, "default": object{"$ref": "#/components/responses/Error"}},
	}
	text := object{"type": "string"}
	var parameters []object
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": text})
	}
	for _, in := range []string{"query", "header"} { // always in the same order, for the document is compared
		all := map[string]map[string]string{"query": o.query, "header": o.header}[in]
		for _, name := range slices.Sorted(maps.Keys(all)) {
			parameters = append(parameters, object{"name": name, "in": in, "description": all[name], "schema": text})
		}
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	switch in := typeOf(e.Request, o.in); {
	case o.takes != "":
		op["requestBody"] = object{"required": true, "content": object{o.takes: object{}}}
	case in != nil:
		content := object{"application/json": object{"schema": d.schema(in, true)}}
		op["requestBody"] = object{"required": true, "content": content}
	}
	if o.open {
		op["security"] = []object{{}}
	}
	if d.paths[path] == nil {
		d.paths[path] = object{}
	}
	d.paths[path].(object)[strings.ToLower(method)] = op
}

// typeOf returns the type of a body: the one that the route tells, unless that is open. Nil: there is none.
func typeOf(of reflect.Type, otherwise any) reflect.Type {
	if otherwise != nil {
		return reflect.TypeOf(otherwise)
	}
	if of == reflect.TypeFor[web.None]() {
		return nil
	}
	return of
}

// schema returns a reference to the schema of a type, which it adds with those that it needs.
func (d *document) schema(of reflect.Type, asked bool) any {
	s := d.reflector.ReflectFromType(of)
	d.nullable(s, of, map[reflect.Type]bool{})
	for name, def := range s.Definitions {
		d.schemas[name] = def
		d.answered[name] = d.answered[name] || !asked
	}
	s.Definitions, s.Version = nil, ""
	return s
}

// nullable lets fields be null that are where nothing is: pointers.
func (d *document) nullable(s *jsonschema.Schema, of reflect.Type, seen map[reflect.Type]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	def := s.Definitions[of.Name()]
	if of.Kind() != reflect.Struct || seen[of] {
		return
	}
	seen[of] = true
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		always := f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omitempty")
		if def != nil { // a struct without a name has its schema where it is used
			orNull(def, name, always)
		}
		d.nullable(s, f.Type, seen)
	}
}

// orNull lets a property of a schema be null that is where nothing is, or that says of itself what null is.
func orNull(def *jsonschema.Schema, name string, always bool) {
	if one, there := def.Properties.Get(name); there && (always || one.Type == "object" && strings.Contains(one.Description, "null:")) {
		value := *one
		value.Description = ""
		*one = jsonschema.Schema{Description: one.Description, OneOf: []*jsonschema.Schema{&value, {Type: "null"}}}
	}
}

// components are the schemas as the service holds to them. A request may leave fields out, and have none that are not
// known. Answers have all of theirs, and later ones may have more.
func (d *document) components() any {
	for name, s := range d.schemas {
		for _, b := range bounds {
			if field, there := s.Properties.Get(b.field); there && field.Type == "integer" {
				field.Minimum, field.Maximum = number(b.least), number(b.most)
			}
		}
		if field, there := s.Properties.Get("points"); there && field.Type == "array" && !d.answered[name] {
			most := uint64(spawner.MostPoints)
			field.MaxItems = &most
		}
		if d.answered[name] {
			s.AdditionalProperties = nil
		} else {
			s.Required = nil
		}
	}
	return d.schemas
}

// bounds are what whole numbers of a job may be, wherever they stand; what a site limits is in catalog.JobPolicy.
var bounds = []struct {
	field       string
	least, most int
}{
	{"retries", 0, spawner.MostRetries},
	{"priority", -spawner.MostPriority, spawner.MostPriority},
}

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

func (d *document) root() object {
	refusal := d.schema(reflect.TypeFor[hubapi.ErrorBody](), false)
	var tags []object
	for _, g := range groups {
		tags = append(tags, object{"name": g.name})
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Slipway", "version": "v1",
			"description": "The native API of Slipway: sessions on slices of GPUs, frozen environments, and jobs. " +
				"A request has the user's token of the Hub (scope access:services!service=slipway); in a session or job, " +
				"slipway and the Python package ask through the agent, without one. A body may have 1 MiB. " +
				"256 requests at once of one user, or 16 MiB, are the most: 429 comes with Retry-After.",
		},
		"servers":  []object{{"url": hubapi.Base}},
		"security": []object{{"token": []string{}}},
		"tags":     tags,
		"paths":    d.paths,
		"components": object{
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer", "description": "an access token of the service, or a token of JupyterHub"},
			},
			"responses": object{
				"Error": object{
					"description": "What is wrong, and what to do",
					"content":     object{"application/json": object{"schema": refusal}},
				},
			},
			"schemas": d.components(),
		},
	}
}

// operationID is a name for programs: get_sessions_id_wait.
func operationID(method, path string) string {
	return strings.ToLower(method) + strings.TrimRight(noWord.ReplaceAllString(path, "_"), "_")
}

func groupOf(t *testing.T, path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	for _, g := range groups {
		if slices.Contains(g.words, first) {
			return g.name
		}
	}
	t.Errorf("%s is in no group", path)
	return ""
}

// TestDocumentIsForEverybody: who has no token yet reads what the API is.
func TestDocumentIsForEverybody(t *testing.T) {
	h := startPages(t, newFake(), nil)
	kinds := map[string]string{"/openapi.json": "application/json", "/docs": "text/html; charset=utf-8"}
	for path, want := range kinds {
		documentIs(t, h.front.URL+hubapi.Base+path, want)
		documentIs(t, h.front.URL+"/other/services/slipway"+hubapi.Base+path, want) // through the Hub's proxy
	}
}

func documentIs(t *testing.T, url, want string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	resp.Body.Close()
	kind, whole := resp.Header.Get("Content-Type"), strings.Contains(text.String(), "/sessions/{id}/freeze")
	if err != nil || resp.StatusCode != http.StatusOK || kind != want || !whole {
		t.Errorf("%s: %s, %s, %d bytes, %v", url, resp.Status, kind, text.Len(), err)
	}
}
