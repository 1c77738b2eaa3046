package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeMenu has one kernelspec, which can be switched to one slice.
type fakeMenu struct{}

func (fakeMenu) KernelSpecs(c spawner.Caller) ([]hubapi.KernelSpec, error) {
	return []hubapi.KernelSpec{{Name: "python", DisplayName: "of " + string(c.User)}}, nil
}

func (fakeMenu) SwitchKernel(_ context.Context, c spawner.Caller, name string, to hubapi.KernelSwitch) (hubapi.KernelSpec, error) {
	if to.GPU != "3g.71gb" && to.GPU != hubapi.SwitchDefault {
		return hubapi.KernelSpec{}, errs.Bad("gpu", to.GPU, "one of 1g.18gb, 3g.71gb, or default")
	}
	return hubapi.KernelSpec{
		Name: name, DisplayName: "of " + string(c.User), Resources: hubapi.Resources{GPU: to.GPU},
	}, nil
}

func TestKernelspecsOfACaller(t *testing.T) {
	h := start(t, newFake(), nil)
	for _, tc := range []struct{ method, path, body, want string }{
		{http.MethodGet, "/kernelspecs", "", `"display_name":"of alice"`},
		{http.MethodPost, "/kernelspecs/self/switch", `{"gpu": "3g.71gb"}`, `"gpu":"3g.71gb"`},
		{http.MethodPost, "/kernelspecs/python/switch", `{"gpu": "7g"}`, `"remedy":"one of 1g.18gb, 3g.71gb, or default"`},
		{http.MethodPost, "/kernelspecs/python/switch", `{}`, `"field":"gpu"`},
	} {
		if got := h.says(t, tc.method, tc.path, tc.body); !strings.Contains(got, tc.want) {
			t.Errorf("%s %s %s: %s", tc.method, tc.path, tc.body, got)
		}
	}
	lines := auditLines(h.logged.String())
	if len(lines) != 3 || !strings.Contains(lines[0], "a user's next kernels are switched") || !strings.Contains(lines[0], "gpu=3g.71gb") {
		t.Errorf("the log: %s", lines)
	}
}

func TestSiteWithoutKernels(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.KernelMenu = nil })
	for path, method := range map[string]string{"/kernelspecs": http.MethodGet, "/kernelspecs/python/switch": http.MethodPost} {
		if got := h.says(t, method, path, `{"gpu":"whole"}`); !strings.Contains(got, `"code":"missing"`) || !strings.Contains(got, "kernels.specs") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// says returns what the API answers alice.
func (h *harness) says(t *testing.T, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequest(method, h.front.URL+hubapi.Base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer alice-token")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}
