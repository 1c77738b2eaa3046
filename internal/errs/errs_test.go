package errs

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestTableIsOneToOne(t *testing.T) {
	codes := map[string]bool{}
	for i, r := range Table() {
		if int(r.Kind) != i {
			t.Errorf("row %d is of kind %d", i, r.Kind)
		}
		if codes[r.Code] {
			t.Errorf("code %q stands twice", r.Code)
		}
		codes[r.Code] = true
		if ByCode(r.Code) != r.Kind || RowOf(r.Kind) != r {
			t.Errorf("%q does not lead back to its kind", r.Code)
		}
	}
}

func TestKindSurvivesWrapping(t *testing.T) {
	base := New(NoSpace, "write %s: %w", "x", fs.ErrPermission)
	err := fmt.Errorf("freeze: %w", base)
	if !Is(err, NoSpace) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("kind %v, cause kept %v", KindOf(err), errors.Is(err, fs.ErrPermission))
	}
	if Is(nil, Internal) || KindOf(errors.New("plain")) != Internal {
		t.Error("nil has no kind; a plain error is Internal")
	}
}

func TestRemedyIsTold(t *testing.T) {
	err := Bad("memory", "9T", "at most 8G")
	if got, want := err.Error(), `memory: "9T" is not valid: at most 8G`; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if e := New(Missing, "no apptainer"); e.With("install it").Remedy != "install it" || e.Remedy != "" {
		t.Error("With must change a copy")
	}
}

func TestWhatIsTooMuchIsNotInvalid(t *testing.T) {
	e := Over("memory", "100 GiB", "11 GiB", "a job")
	if got, want := e.Error(), "memory: 100 GiB is more than the 11 GiB that a job may have here: at most 11 GiB"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got, want := Under("time_limit", "0.5s", "1s", "a job").Called("--time"), "--time: 0.5s is less than the 1s that a job needs"; got.Message != want || got.Field != "time_limit" {
		t.Errorf("%q of %q, want %q", got.Message, got.Field, want)
	}
	if got := New(Invalid, "nothing of fields").Called("--mem").Message; got != "nothing of fields" {
		t.Error(got)
	}
}

func TestDetailsAreTold(t *testing.T) {
	e := New(Conflict, "nothing was frozen").With("delete them").Naming([]Detail{{Path: "/a", Line: 3, What: "a key"}, {Path: "/b; c", What: "a token"}, {What: "and 2 more"}})
	wrapped := fmt.Errorf("freeze s-1: %w", e)
	if got, want := wrapped.Error(), `freeze s-1: nothing was frozen: /a line 3: a key; "/b; c": a token; and 2 more: delete them`; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got := Brief(wrapped); got != "freeze s-1: nothing was frozen" {
		t.Errorf("Brief() = %q", got)
	}
	if got := Brief(errors.New("plain: x")); got != "plain: x" {
		t.Errorf("Brief() = %q", got)
	}
}
