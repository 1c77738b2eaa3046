package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v4"

	"slipway/internal/units"
)

// TestSchema makes the schema: of the types with their comments, of what the example says of each key, and of the
// defaults.
func TestSchema(t *testing.T) {
	r := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true, Mapper: mapped,
	}
	if err := r.AddGoComments("slipway/internal/config", ".", jsonschema.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	for name := range r.CommentMap {
		if strings.Count(strings.TrimPrefix(name, "slipway/internal/config."), ".") == 0 {
			delete(r.CommentMap, name) // of types: they speak to who reads the code
		}
	}
	s := r.ReflectFromType(reflect.TypeFor[Config]())
	ofJobs, _ := s.Properties.Get("jobs")
	ofProfiles, _ := s.Properties.Get("profiles")
	chooseBackend(ofJobs, func(b Backend) bool { return b.Jobs })
	chooseBackend(ofProfiles.Items, func(b Backend) bool { return b.Sessions })
	s.Title, s.Description = "slipway.yaml", "The configuration of `slipway serve`."
	var example yaml.Node
	if err := yaml.Unmarshal([]byte(Example()), &example); err != nil {
		t.Fatal(err)
	}
	explain(s, reflect.ValueOf(Default()), example.Content[0])
	explained(t, "", s)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", string(text)+"\n")
}

// explained fails for each key that the example does not explain: editors and the book show these words.
func explained(t *testing.T, path string, s *jsonschema.Schema) {
	t.Helper()
	if s == nil || s.Properties == nil {
		return
	}
	for key := s.Properties.Oldest(); key != nil; key = key.Next() {
		name := path + key.Key
		if key.Value.Description == "" {
			t.Errorf("the example has no comment of its own above %s", name)
		}
		explained(t, name+".", key.Value)
		explained(t, name+"[].", key.Value.Items)
	}
}

// chooseBackend says which backends the key of that name may have.
func chooseBackend(s *jsonschema.Schema, runs func(Backend) bool) {
	property, _ := s.Properties.Get("backend")
	for _, b := range Backends() {
		if runs(b) {
			property.Enum = append(property.Enum, b.Name)
		}
	}
}

// mapped returns the schema of a type that is read from text; nil for any other.
func mapped(t reflect.Type) *jsonschema.Schema {
	text, number := &jsonschema.Schema{Type: "string"}, &jsonschema.Schema{Type: "integer"}
	switch t {
	case reflect.TypeFor[Size](), reflect.TypeFor[Bound]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{text, number}}
	case reflect.TypeFor[Duration]():
		text.Pattern = `^0$|^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$`
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{text, {Const: 0}}}
	case reflect.TypeFor[Range]():
		return &jsonschema.Schema{Type: "string", Pattern: "^[0-9]+-[0-9]+$"}
	}
	return nil
}

// explain puts into the schema of a struct what its keys hold where they are left out, and what the example says of
// them, which is more than the comments of fields do.
func explain(s *jsonschema.Schema, v reflect.Value, example *yaml.Node) {
	for f, value := range v.Fields() {
		if f.Anonymous {
			explain(s, value, example)
			continue
		}
		name := f.Tag.Get("yaml")
		key, shown := shownKey(example, name)
		property, _ := s.Properties.Get(name)
		var list *yaml.Node
		if key != nil && key.HeadComment != "" {
			property.Description, list = comment(key.HeadComment)
		}
		property.Default = defaultOf(value)
		switch of := value.Type(); {
		case of.Kind() == reflect.Struct && property.Properties != nil:
			explain(property, value, shown)
		case of.Kind() == reflect.Slice && property.Items.Properties != nil:
			element := reflect.New(of.Elem())
			if e, ok := element.Interface().(defaulter); ok {
				e.setDefaults()
			}
			if list == nil {
				list = shown
			}
			explain(property.Items, element.Elem(), merged(list))
		}
	}
}

// shownKey finds a key of a mapping and its value; nil: it is not there.
func shownKey(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// merged returns the elements of a list as one mapping that has the keys of all.
func merged(list *yaml.Node) *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode}
	if list != nil {
		for _, element := range list.Content {
			all.Content = append(all.Content, element.Content...)
		}
	}
	return all
}

// comment reads the comment above a key, and the list that it may show; nil: it shows none.
func comment(text string) (words string, list *yaml.Node) {
	var shown strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimRight(line, "\n"), "#"), " ")
		switch indented := strings.HasPrefix(line, "  "); {
		case indented && (shown.Len() > 0 || strings.HasPrefix(line, "  - ")):
			shown.WriteString(line + "\n")
		case indented:
			words += "\n" + line
		default:
			words += " " + line
		}
	}
	words = strings.TrimSuffix(strings.TrimSpace(words), " Such as")
	var document yaml.Node
	if yaml.Unmarshal([]byte(shown.String()), &document) == nil && len(document.Content) > 0 {
		list = document.Content[0]
	}
	return words, list
}

// defaultOf returns a default as the file would have it; nil: there is none worth to be told.
func defaultOf(v reflect.Value) any {
	switch d := v.Interface().(type) {
	case bool:
		return d
	case Duration:
		return time.Duration(d).String()
	case Range:
		return d.String()
	case Size:
		if d > 0 {
			return units.FormatMemory(int64(d))
		}
	case Bound:
		if d == 0 {
			return "none"
		}
		return fmt.Sprintf("%dG", d/1e9)
	case string, int, int64, float64:
		if !v.IsZero() {
			return d
		}
	}
	return nil
}

// TestTheExamplesElementsAreRight takes the elements of lists that the example shows in comments: they are read as if
// they stood there.
func TestTheExamplesElementsAreRight(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(Example()), &document); err != nil {
		t.Fatal(err)
	}
	shown := 0
	entries(document.Content[0], "", func(path string, e entry) {
		if e.value.Kind != yaml.SequenceNode || len(e.value.Content) > 0 {
			return
		}
		_, list := comment(e.key.HeadComment)
		if list == nil {
			return
		}
		shown++
		section, key, _ := strings.Cut(path, ".")
		text, err := yaml.Marshal(map[string]any{section: map[string]any{key: list}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v\n%s", path, err, text)
		}
	})
	if shown < 7 {
		t.Errorf("%d lists show their elements", shown)
	}
}
