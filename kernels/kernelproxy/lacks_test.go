package kernelproxy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"slipway/kernels/wire"
)

// withNumpy is a session that has numpy.
func withNumpy(cfg *Config) {
	cfg.Has = func(_ context.Context, module string) (string, bool) { return "2.5.5", module == "numpy" }
}

// Who imports what the session has and the kernel has not is told so below the cell, and before that is over:
// JupyterLab shows nothing after it.
func TestModuleThatTheSessionHas(t *testing.T) {
	g := newGateway(t)
	c := startBridge(t, g, "", withNumpy).join("one")
	id := c.cell("import numpy")
	advised := false
	c.find("the end of the cell", func(m wire.Message) bool {
		if m.ParentID() == id && strings.Contains(words(m), "numpy 2.5.5 is installed in your session") {
			advised = strings.Contains(words(m), FromSession)
		}
		return m.ParentID() == id && strings.Contains(string(m.Content), `"idle"`)
	})
	if !advised {
		t.Error("it is not said, or too late")
	}
	for _, code := range []string{"import pandas", "import numpy.nothing"} {
		id := c.cell(code)
		c.find("the end of the cell", func(m wire.Message) bool {
			if m.ParentID() == id && m.Type() == "stream" {
				t.Errorf("%s: %s", code, words(m))
			}
			return m.ParentID() == id && strings.Contains(string(m.Content), `"idle"`)
		})
	}
}

const frozen = `event: done
data: {"digest": "sha256:ab"}

`

// The one line freezes the session, switches the kernelspec, and has another kernel take the place of this one.
func TestKernelFromTheSession(t *testing.T) {
	g := newGateway(t)
	g.freezes, g.ending = frozen, 0
	c := startBridge(t, g, "", withNumpy).join("one")
	c.until("execute_reply", c.cell("before"))
	g.set(func() { g.calls, g.ending = nil, 1 })
	id := c.cell("  %slipway kernel  --from-session\n")
	c.find("word of it", func(m wire.Message) bool {
		if strings.Contains(words(m), "stopped by its owner") {
			t.Error("the end of the kernel before is told")
		}
		return m.ParentID() == id && strings.Contains(words(m), "now runs in your session's environment")
	})
	if m := c.until("execute_reply", id); !strings.Contains(string(m.Content), `"ok"`) || !strings.Contains(string(m.Content), `"execution_count":1`) {
		t.Errorf("%s", m.Content)
	}
	c.until("execute_reply", c.cell("after"))
	g.mu.Lock()
	defer g.mu.Unlock()
	want := []string{"sessions/self/freeze", "kernelspecs/gpu/switch", `{"environment":"sha256:ab"}`, "DELETE"}
	if at := slices.Index(g.calls, "sessions/self/freeze"); at < 0 || !slices.Equal(slices.DeleteFunc(slices.Clone(g.calls[at:]), func(s string) bool {
		return !slices.Contains(want, s)
	}), want) || !slices.Contains(g.calls, "POST") {
		t.Errorf("%q", g.calls)
	}
	if g.heard[id] != 0 {
		t.Error("the kernel is given the line")
	}
}

func TestFreezeThatIsRefusedIsSaid(t *testing.T) {
	g := newGateway(t)
	g.freezes = "event: error\ndata: {\"error\": {\"code\": \"invalid\", \"message\": \"/root/key is a private key\", \"remedy\": \"remove it\"}}\n\n"
	c := startBridge(t, g, "", nil).join("one")
	c.until("execute_reply", c.cell("before"))
	id := c.cell(FromSession)
	if got := words(c.until("error", id)); !strings.Contains(got, "a private key") || !strings.Contains(got, "remove it") {
		t.Errorf("%q", got)
	}
	c.until("execute_reply", id)
	c.until("execute_reply", c.cell("after"))
	if g.called("DELETE") != 0 {
		t.Error("the kernel is ended all the same")
	}
}
