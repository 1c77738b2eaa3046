package paramgrid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// testCase is one of the tables that the Python side's tests read too.
type testCase struct {
	Given   []string            `json:"given"`
	Name    string              `json:"name"`
	Text    string              `json:"text"`
	Points  []map[string]string `json:"points"`
	Refused string              `json:"refused"`
}

func readTable(t testing.TB, name string) (table []testCase) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "hubapi", "testdata", name))
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (tc testCase) check(t *testing.T, points []hubapi.Point, err error) {
	t.Helper()
	if tc.Refused != "" {
		e, ok := errors.AsType[*errs.Error](err)
		if !ok || e.Kind != errs.Invalid || e.Field == "" || e.Remedy == "" || !strings.Contains(err.Error(), tc.Refused) {
			t.Errorf("%v, want a refusal with %q", err, tc.Refused)
		}
		return
	}
	var got []map[string]string
	for _, p := range points {
		got = append(got, p.Parameters)
	}
	if diff := cmp.Diff(tc.Points, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range readTable(t, "scans.json") {
		t.Run(strings.Join(tc.Given, " "), func(t *testing.T) {
			points, err := Parse(tc.Given)
			tc.check(t, points, err)
		})
	}
	if points, err := Parse(nil); points != nil || err != nil {
		t.Errorf("%v, %v", points, err)
	}
}

func TestFile(t *testing.T) {
	table := readTable(t, "grid-files.json")
	t.Chdir(t.TempDir())
	for _, tc := range table {
		t.Run(tc.Text, func(t *testing.T) {
			if err := os.WriteFile(tc.Name, []byte(tc.Text), 0o600); err != nil {
				t.Fatal(err)
			}
			points, err := File(tc.Name)
			tc.check(t, points, err)
		})
	}
}

func TestFilesThatAreNone(t *testing.T) {
	t.Chdir(t.TempDir())
	tests := []struct{ name, text, words string }{
		{"many.csv", "k\n" + strings.Repeat("x\n", 10_000) + "y\n", "many.csv:3: the same point as many.csv:2"},
		{"deep.json", strings.Repeat("[", 200_000), "exceeded max depth"},
		{"nested.json", `[{"k": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}]", "a value is too long"},
		{"digits.json", `[{"k": ` + strings.Repeat("9", 5000) + "}]", "a number is not finite"},
		{"half.json", `[{"k": "\ud800"}]`, "half a character"},
		{"bare.csv", "k,s\n1,a \"b\"\n", "bare.csv:2: bare"},
		{"odd.csv", "k\n\xff\n", "not UTF-8 text"},
	}
	for _, tc := range tests {
		if err := os.WriteFile(tc.name, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := File(tc.name); err == nil || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.words)
		}
	}
	if _, err := File("none.csv"); err == nil || !strings.Contains(err.Error(), "No such file") {
		t.Error(err)
	}
	if _, err := File("."); err == nil {
		t.Error("a directory is no file of points")
	}
}

func TestPointsAreCountedBeforeTheyAreMade(t *testing.T) {
	allocated := testing.AllocsPerRun(1, func() {
		_, err := Parse([]string{"a=range(1000)", "b=linear(0,1,100)", "c=log(1,2,100)"})
		if err == nil || !strings.Contains(err.Error(), "10,000,000 points are too many: at most 10,000 points") {
			t.Error(err)
		}
	})
	if allocated > 1000 {
		t.Errorf("%.0f allocations", allocated)
	}
	most := "k=" + strings.Trim(strings.Repeat("1,", 100), ",")
	if _, err := Parse([]string{most, most, most, most, most, most, most, most}); err == nil || len(err.Error()) > 300 {
		t.Error(err)
	}
}

func TestManyLinesAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.csv")
	text := "k\n"
	for i := range hubapi.PointLimit + 1 {
		text += strconv.Itoa(i) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := File(path); err == nil || !strings.Contains(err.Error(), "p.csv: 10,001 points are too many") {
		t.Error(err)
	}
}

// TestNumbersAreWrittenAsPythonDoes asks Python itself, where there is one.
func TestNumbersAreWrittenAsPythonDoes(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var given []string
	for i := 2; i < 80; i++ {
		given = append(given, fmt.Sprintf("x=log(%de-%d,%d.%d7,%d)", i, i%30, i, i, i%23+2), fmt.Sprintf("x=linear(-%d.%d,%de%d,%d)", i, i, i, i%40, i%19+2),
			fmt.Sprintf("x=range(%d.5,%d,%d.1)", i, 12*i, i%7+1))
	}
	asked, _ := json.Marshal(given)
	code := `import importlib.util, json, sys, types
package = types.ModuleType("slipway"); package.__path__ = [sys.argv[1]]; sys.modules["slipway"] = package
from slipway._points import parse_scan
print(json.dumps([[p["x"] for p in parse_scan([text])] for text in json.load(sys.stdin)]))`
	cmd := exec.Command(python, "-c", code, filepath.Join("..", "..", "notebooks", "src", "slipway"))
	cmd.Stdin = bytes.NewReader(asked)
	answer, err := cmd.CombinedOutput()
	var want [][]string
	if err == nil {
		err = json.Unmarshal(answer, &want)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	for i, text := range given {
		points, err := Parse([]string{text})
		var got []string
		for _, p := range points {
			got = append(got, p.Parameters["x"])
		}
		if diff := cmp.Diff(want[i], got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("k=1,2,3", "mode=fast,slow")
	f.Add("a==,=", "b=\x00")
	f.Add("a='b,c',\"d\"", "b=log(1,1e4,5)")
	f.Add("a='{1: [2,(3,)]}'", "b=range(-3,3,0.5)")
	f.Fuzz(func(t *testing.T, one, two string) {
		points, err := Parse([]string{one, two})
		if err != nil {
			return
		}
		sound(t, points, 2)
	})
}

func FuzzFile(f *testing.F) {
	for _, tc := range readTable(f, "grid-files.json") {
		f.Add(tc.Text, strings.HasSuffix(tc.Name, "json"))
	}
	f.Fuzz(func(t *testing.T, text string, object bool) {
		path := filepath.Join(t.TempDir(), map[bool]string{true: "p.json", false: "p.csv"}[object])
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if points, err := File(path); err == nil {
			sound(t, points, len(points[0].Parameters))
		}
	})
}

// sound checks that the service would take the points.
func sound(t *testing.T, points []hubapi.Point, names int) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range points {
		text, _ := json.Marshal(p.Parameters)
		if len(p.Parameters) != names || seen[string(text)] {
			t.Fatalf("%s", text)
		}
		seen[string(text)] = true
		for name, value := range p.Parameters {
			if err := hubapi.CheckParameter("points", name, value); err != nil || value == "" {
				t.Fatal(name, value, err)
			}
		}
	}
}
