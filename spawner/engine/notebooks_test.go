package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
)

func TestNotebooksOfAKernel(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		r := kernelRequest("one")
		r.ID = "id-of-clients"
		w, err := s.StartKernel(t.Context(), alice, r)
		if err != nil || w.Kernel != r.ID {
			t.Fatalf("%+v, %v", w, err)
		}
		first := spawner.Notebook{ID: "n1", Path: "a/b.ipynb", Type: "notebook"}
		for _, n := range []spawner.Notebook{first, {ID: "n2", Path: "c"}, {ID: "n2", Path: "d", Name: "later"}} {
			if _, err := s.Bind(t.Context(), alice, w.ID, n); err != nil {
				t.Fatal(err)
			}
		}
		s.restart()
		if got := s.Kernels(alice)[0]; got.Kernel != r.ID || !slices.Equal(got.Notebooks, []spawner.Notebook{first, {ID: "n2", Path: "d", Name: "later"}}) {
			t.Errorf("after the service is back: %+v", got)
		}
		if _, err := s.Bind(t.Context(), bob, w.ID, first); !errs.Is(err, errs.NotFound) {
			t.Errorf("bob binds: %v", err)
		}
		for _, n := range []spawner.Notebook{{ID: "x", Path: strings.Repeat("p", 1025)}, {ID: "x", Name: strings.Repeat("n", 256)}, {ID: "x", Type: strings.Repeat("t", 65)}, {ID: "x", Path: "a\nb"}, {ID: "x", Name: "\xff"}} {
			if _, err := s.Bind(t.Context(), alice, w.ID, n); !errs.Is(err, errs.Invalid) {
				t.Errorf("%.40v: %v", n, err)
			}
		}
		for i := range 14 {
			_, err = s.Bind(t.Context(), alice, w.ID, spawner.Notebook{ID: fmt.Sprint(i)})
		}
		if _, full := s.Bind(t.Context(), alice, w.ID, spawner.Notebook{ID: "one too many"}); err != nil || !errs.Is(full, errs.OverQuota) {
			t.Errorf("%v, %v", err, full)
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Bind(t.Context(), alice, w.ID, first); !errs.Is(err, errs.Conflict) && !errs.Is(err, errs.NotFound) {
			t.Errorf("of one that is gone: %v", err)
		}
	})(t)
}
