package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

// nbclient and papermill as they come, whose websockets bring no token.
func notebooksFromOutside(t *testing.T, s *site) {
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), filepath.Join(testenv.Cache(), "dev/bin/python"), "testdata/outside.py", dir)
	c.Env = append(os.Environ(), "HOME="+dir, "JUPYTER_GATEWAY_URL="+s.url+"/kernels", "JUPYTER_GATEWAY_AUTH_TOKEN=token-of-alice")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	s.eventually("they leave no kernels", func() bool { return len(s.list("alice", "sessions")) == 0 })
	s.logged("a kernel's client is let in by the kernel's id", "door=ticket")
}

// What VS Code calls of an "Existing Jupyter server" from its first look to the end of a notebook, as its sources and
// those of @jupyterlab/services have it. What is no gateway's affair it asks too, and takes a refusal.
func vsCodeFromOutside(t *testing.T, s *site) {
	call := func(method, path, body string, want int) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+"/kernels"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "token token-of-alice")
		r.Header.Set("Cookie", "_xsrf=stale") // it keeps what it was given elsewhere
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var text json.RawMessage
		_ = json.NewDecoder(res.Body).Decode(&text)
		if res.StatusCode != want {
			t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
		}
		return string(text)
	}
	call("GET", "/api", "", 200)
	call("GET", "/tree?token=token-of-alice", "", 404)
	call("GET", "/api/kernelspecs?1732300000000", "", 200)
	call("GET", "/api/kernels?1732300000000", "", 200)
	call("GET", "/api/sessions?1732300000000", "", 200)
	call("POST", "/api/contents", `{"type": "notebook"}`, 404)
	var v struct {
		ID     string
		Kernel struct{ ID string }
	}
	created := call("POST", "/api/sessions?1732300000000", `{"path": "a-jvsc-1.ipynb", "name": "a-1.ipynb", "type": "notebook", "kernel": {"name": "python"}}`, 201)
	if err := json.Unmarshal([]byte(created), &v); err != nil {
		t.Fatal(err)
	}
	j := &jupyter{t, s.url + "/kernels", "token-of-alice"}
	n := j.open(v.Kernel.ID)
	if got := n.until("execute_result", n.run("6*7")); !strings.Contains(got, `"42"`) {
		t.Errorf("6*7: %s", got)
	}
	if got := call("GET", "/api/sessions/"+v.ID, "", 200); !strings.Contains(got, v.Kernel.ID) {
		t.Errorf("its session: %s", got)
	}
	call("PATCH", "/api/sessions/"+v.ID, `{"name": "b.ipynb", "path": "b.ipynb", "type": "notebook"}`, 200)
	call("POST", "/api/kernels/"+v.Kernel.ID+"/interrupt?1", "", 204)
	call("POST", "/api/kernels/"+v.Kernel.ID+"/restart?1", "", 200)
	if got := n.until("execute_result", n.run("2*21")); !strings.Contains(got, `"42"`) {
		t.Errorf("after a restart: %s", got)
	}
	call("DELETE", "/api/sessions/"+v.ID, "", 204)
	call("DELETE", "/api/sessions/"+v.ID, "", 404)
	call("GET", "/api/kernels/"+v.Kernel.ID, "", 404)
	s.eventually("nothing of it is left", func() bool { return len(s.list("alice", "sessions")) == 0 })
}
