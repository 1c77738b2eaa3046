package spawner

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStoredForm holds the records of workloads to the form that services have stored: testdata/workload.json was
// written by one of 2026-11-24, when a Workload was one flat struct, with every field set. It is read without a loss,
// and written the same. A new field is added to the file; a key that changes needs an upgrade step in internal/store.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("testdata/workload.json")
	if err != nil {
		t.Fatal(err)
	}
	var w Workload
	strict := json.NewDecoder(bytes.NewReader(stored))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&w); err != nil {
		t.Fatal(err)
	}
	for _, path := range unset(reflect.ValueOf(w), "Workload") {
		t.Errorf("%s is not in testdata/workload.json", path)
	}
	written, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var was, is any
	if err := json.Unmarshal(stored, &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &is); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("it is written in another form (-stored +written):\n%s", diff)
	}
}

// TestStoredByANewerVersion: an older program reads its records, and passes over what it does not know. So a site can go
// back to the version before.
func TestStoredByANewerVersion(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("testdata/workload.json")
	if err != nil {
		t.Fatal(err)
	}
	newer := append([]byte(`{"of_a_newer_version": {"a": [1]}, `), bytes.TrimPrefix(bytes.TrimSpace(stored), []byte("{"))...)
	var w, want Workload
	if err := json.Unmarshal(newer, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stored, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("%+v, want %+v", w, want)
	}
}

// unset returns the fields that are zero, at any depth.
func unset(v reflect.Value, path string) (paths []string) {
	switch {
	case v.IsZero():
		return []string{path}
	case v.Kind() == reflect.Pointer:
		return unset(v.Elem(), path)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		return unset(v.Index(0), path)
	case v.Kind() != reflect.Struct:
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			paths = append(paths, unset(v.Field(i), path+"."+f.Name)...)
		}
	}
	return paths
}
