package classad

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExpressions has what HTCondor's own library gives for the same (classad_eval of 23.9).
func TestExpressions(t *testing.T) {
	my, target := New(), New()
	my.Set("RequestCpus", int64(2))
	my.Set("Name", "MY")
	my.SetExpr("twice", "RequestCpus * 2")
	my.SetExpr("loop", "loop + 1")
	my.SetExpr("requiregpus", "GlobalMemoryMb >= Least")
	my.Set("Least", int64(5000))
	target.Set("Cpus", int64(8))
	target.Set("Name", "Target")
	target.SetExpr("gpus", `{ [Id = "a"; GlobalMemoryMb = 4861], [Id = "b"; GlobalMemoryMb = 24220; Capability = 7.0] }`)
	target.SetExpr("half", "Cpus / 2")
	target.SetExpr("limit", "TARGET.RequestCpus <= MY.Cpus")
	for text, want := range map[string]Value{
		"1": int64(1), "1.5": 1.5, "1e3": 1000.0, ".5": 0.5, `"a\"b"`: `a"b`, "TRUE": true, "undefined": nil, "ERROR": failed{}, "-3": int64(-3), "+2": int64(2),
		"1 + 2 * 3": int64(7), "(1 + 2) * 3": int64(9), "7 / 2": int64(3), "7 / 2.0": 3.5, "7 % 4": int64(3), "1 / 0": failed{}, "1 % 0": failed{},
		"1 == 1.0": true, "1 =?= 1.0": false, "true == 1": true, `"A" == "a"`: true, `"A" =?= "a"`: false, `"a" < "B"`: true, `"1" == 1`: failed{},
		"undefined == 1": nil, "undefined =?= undefined": true, "1 isnt undefined": true, "1 is 1": true, "undefined =!= undefined": false,
		"false && undefined": false, "undefined && false": false, "true && undefined": nil, "undefined || true": true, "undefined || false": nil, "error || true": failed{},
		"false && error": false, "undefined && error": failed{}, "!undefined": nil, "!0": true, `!"a"`: failed{}, "2 && true": true,
		"1 > 0 ? 10 : 20": int64(10), "undefined ? 1 : 2": nil, "undefined ?: 5": int64(5), "3 ?: 5": int64(3), "Missing ?: 0 > 1": false,
		"RequestCpus": int64(2), "MY.RequestCpus": int64(2), "TARGET.RequestCpus": nil, "Cpus": int64(8), "MY.Cpus": nil, "target.CPUS": int64(8), "Name": "MY",
		"TARGET.Name": "Target", "twice": int64(4), "TARGET.Half": int64(4), "TARGET.limit": true, "TARGET.Cpus >= RequestCpus": true, "'Cpus'": int64(8),
		"countMatches(GlobalMemoryMb >= 5000, TARGET.GPUs)": int64(1), "countMatches(MY.RequireGPUs, TARGET.GPUs)": int64(1), "countMatches(RequireGPUs, GPUs)": int64(1),
		"countMatches(Capability >= 7, TARGET.GPUs)": int64(1), "countMatches(true, TARGET.Missing)": int64(0), "countMatches(true, Cpus)": failed{}, "size(TARGET.GPUs)": int64(2),
		"countMatches(Id == \"B\", TARGET.GPUs)": int64(1), "size(undefined)": nil, "size(1)": failed{},
		"ifThenElse(true, 1, 2)": int64(1), "ifThenElse(undefined, 1, 2)": nil, "isUndefined(Missing)": true, "isUndefined(1)": false, "int(2.7)": int64(2), "real(2)": 2.0,
		`regexp("^b", "abc")`: false, `regexp("(?i)B", "abc")`: true, `regexp("a", undefined)`: nil, `substr("MIG-1", 0, 4) == "MIG-"`: true, `substr("MI", 0, 4)`: "MI",
		`versionGE("550.54.15", "550")`: true, `versionGE("550.54", "550.9")`: true, `versionLT("9.0", "10.0")`: true, `versionGE("535.1", "550")`: false,
		`stringListMember("b", "a, b,c")`: true, `stringListIMember("B", "a,b")`: true, `stringListMember("B", "a,b")`: false, `member("b", {"a", "B"})`: true, `member(3, {1, 2.0})`: false,
		"[a = 1; b = a + 1].b": int64(2), "{1, 2}": []Value{int64(1), int64(2)},
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, Evaluate(e, my, target)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{"loop", "time()", "MY.open", "open && true", `regexp("(?<x", "a")`} {
		j := my.Over(nil)
		j.open = true
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if v, is := Evaluate(e, j, target).(Unjudged); !is || v.Why == "" {
			t.Errorf("%s is judged to be %v", text, v)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for _, text := range []string{"", "1 +", "(1", "1)", `"a`, "{1", "[a = 1", "[a 1]", "a b", "f(1", "#", "a.1", "1 ? 2", "&& 1", "\xff", "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1"} {
		if e, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, e)
		}
	}
}

func TestAdsThatAreNone(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "\n": true, "[]": true, "[\n]": true, "{}": false, "[1]": false, "[{}": false, "condor_status: error": false} {
		if _, err := ParseAll([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzExpr(f *testing.F) {
	for _, s := range []string{
		`TARGET.Cpus >= RequestCpus && (a ?: 0) < 1`, `countMatches(MY.RequireGPUs, {[a = 1], x})`, `regexp("a+", 'n') is undefined`, `substr("x", 1, -1)`,
		"loop", "1 / 0 % -1", "-9223372036854775808 / -1", `versionGE("1.2", "1.10")`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		my := New()
		my.SetExpr("loop", "loop || a")
		my.SetExpr("a", s)
		Evaluate(e, my, my)
	})
}
