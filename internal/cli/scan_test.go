package cli

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// TestParseScan reads the table that the Python side's tests read too.
func TestParseScan(t *testing.T) {
	var table []struct {
		Given   []string            `json:"given"`
		Points  []map[string]string `json:"points"`
		Refused string              `json:"refused"`
	}
	text, err := os.ReadFile("../../hubapi/testdata/scans.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	for _, tc := range table {
		t.Run(strings.Join(tc.Given, " "), func(t *testing.T) {
			points, err := parseScan(tc.Given)
			if tc.Refused != "" {
				e, ok := errors.AsType[*errs.Error](err)
				if !ok || e.Kind != errs.Invalid || e.Remedy == "" || !strings.Contains(err.Error(), tc.Refused) {
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
		})
	}
}

func TestScanIsCountedBeforeItIsMade(t *testing.T) {
	most := "k=" + strings.Trim(strings.Repeat("1,", 100), ",")
	_, err := parseScan([]string{most, most, most, most, most, most, most})
	if err == nil || !strings.Contains(err.Error(), "at most 10,000 points; these are 2,147,483,648 points") || len(err.Error()) > 300 {
		t.Error(err)
	}
	if points, err := parseScan(nil); points != nil || err != nil {
		t.Errorf("%v, %v", points, err)
	}
}

func FuzzParseScan(f *testing.F) {
	f.Add("k=1,2,3", "mode=fast,slow")
	f.Add("a==,=", "b=\x00")
	f.Fuzz(func(t *testing.T, one, two string) {
		points, err := parseScan([]string{one, two})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, p := range points {
			text, _ := json.Marshal(p.Parameters)
			if len(p.Parameters) != 2 || seen[string(text)] {
				t.Fatalf("%q %q: %s", one, two, text)
			}
			seen[string(text)] = true
			for name, value := range p.Parameters {
				if err := hubapi.CheckParameter("points", name, value); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
