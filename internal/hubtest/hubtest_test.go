package hubtest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/hubtest"
	"slipway/internal/testenv"
)

// failing lets every start fail, and takes it back two seconds after a file is there.
const failing = `
import asyncio
import os

async def slowly(spawner):
    while not os.path.exists("%s"):
        await asyncio.sleep(0.05)
    await asyncio.sleep(2)

c.JupyterHub.spawner_class = "jupyterhub.spawner.SimpleLocalProcessSpawner"
c.Spawner.cmd = ["/nonexistent"]
c.Spawner.post_stop_hook = slowly
`

// TestHub proves the harness with the Hub's own test Spawner: a killed Hub comes back over its database, browsers and
// tokens get in.
func TestHub(t *testing.T) {
	t.Setenv("JUPYTERHUB_BASE_URL", "/not/this/one/") // as in a session of another Hub
	service := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(service.Close)
	for major, base := range map[int]string{5: "/", 6: "/some/base/"} {
		t.Run(string(rune('0'+major)), func(t *testing.T) {
			seen := filepath.Join(t.TempDir(), "seen")
			h := hubtest.Start(t, hubtest.Options{
				Major: major, ServiceURL: service.URL, BaseURL: base,
				Config: fmt.Sprintf(failing, seen),
			})
			hearsOfTheFailure(t, h, seen)
			token := h.Token("alice")
			h.Kill()
			if r := h.Call(http.MethodGet, "/", nil); r.Status != 0 {
				t.Errorf("a killed Hub answers: %s", r.Text())
			}
			h.KillProxy()
			h.Restart()
			var me struct{ Name string }
			h.Read(h.As(token, http.MethodGet, "/user", nil), http.StatusOK, &me)
			if me.Name != "alice" {
				t.Errorf("the token is of %q", me.Name)
			}
			if r := h.Browse("bob").Get("/hub/home"); !strings.Contains(string(r.Body), "bob") {
				t.Errorf("bob's home: %s", r.Text())
			}
			var version struct{ Version string }
			h.Read(h.Call(http.MethodGet, "/", nil), http.StatusOK, &version)
			if !strings.HasPrefix(version.Version, string(rune('0'+major))+".") {
				t.Errorf("version %s of JupyterHub %d", version.Version, major)
			}
		})
	}
}

// hearsOfTheFailure follows a start while the Hub takes it back, when it says that nothing starts.
func hearsOfTheFailure(t *testing.T, h *hubtest.Hub, seen string) {
	t.Helper()
	if r := h.StartServer("carol", "", nil); r.Status != http.StatusAccepted {
		t.Fatal(r.Text())
	}
	testenv.Until(t, "the start is taken back", testenv.Hang, func() bool {
		s, known := h.Server("carol", "")
		if !known {
			t.Fatal("the start was taken back too soon to see it")
		}
		return s.Pending == "stop"
	})
	if err := os.WriteFile(seen, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if events := h.Progress("carol", ""); !events[len(events)-1].Failed {
		t.Errorf("it did not fail: %+v", events)
	}
}
