package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/testenv"
)

const kernelSite = `
kernels:
  max_per_user: 2
  specs:
    - {name: python, display_name: Python here, profile: small}
`

// jupyter is a real Jupyter Server somewhere, whose kernels run on a site.
type jupyter struct {
	*testing.T
	url, token string
}

func newJupyter(t *testing.T, s *site, user string) *jupyter {
	testenv.Need(t, testenv.IPyKernel)
	python := filepath.Join(testenv.Cache(), "dev/bin/python")
	dir, port := t.TempDir(), testenv.FreePorts(t, 1)[0]
	c := exec.Command(python, "-m", "jupyter_server", "--allow-root", "--no-browser", fmt.Sprintf("--port=%d", port), "--port-retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
		"--gateway-url="+s.url+"/kernels", "--ServerApp.root_dir="+dir)
	c.Env = append(os.Environ(), "HOME="+dir, "JUPYTER_GATEWAY_AUTH_TOKEN=token-of-"+user)
	server := testenv.Start(t, c)
	j := &jupyter{T: t, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	server.Until("Jupyter Server answers", func() bool {
		res, err := http.Get(j.url + "/api")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	return j
}

func (j *jupyter) do(method, path, body string, want int) map[string]any {
	j.Helper()
	r, err := http.NewRequestWithContext(j.Context(), method, j.url+path, strings.NewReader(body))
	if err != nil {
		j.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		j.Fatal(err)
	}
	defer res.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(res.Body).Decode(&answer)
	if res.StatusCode != want {
		j.Fatalf("%s %s: %d %v", method, path, res.StatusCode, answer)
	}
	return answer
}

// openKernel is a browser's websocket to one kernel.
type openKernel struct {
	*jupyter
	ws *websocket.Conn
	n  int
}

func (j *jupyter) open(id string) *openKernel {
	j.Helper()
	return &openKernel{jupyter: j, ws: j.dial(id)}
}

func (j *jupyter) dial(id string) *websocket.Conn {
	j.Helper()
	ws, _, err := websocket.Dial(j.Context(), "ws"+strings.TrimPrefix(j.url, "http")+"/api/kernels/"+id+"/channels?session_id=e2e&token="+j.token, nil)
	if err != nil {
		j.Fatal(err)
	}
	ws.SetReadLimit(-1)
	j.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// run starts a cell and gives the number of its request.
func (n *openKernel) run(code string) string {
	n.Helper()
	n.n++
	id := fmt.Sprintf("m%d", n.n)
	text, _ := json.Marshal(map[string]any{
		"channel": "shell", "header": map[string]any{"msg_id": id, "msg_type": "execute_request", "session": "e2e", "username": "", "version": "5.3", "date": "2026-01-01T00:00:00Z"},
		"parent_header": map[string]any{}, "metadata": map[string]any{}, "buffers": []any{},
		"content": map[string]any{"code": code, "silent": false, "store_history": true, "user_expressions": map[string]any{}, "allow_stdin": false, "stop_on_error": true},
	})
	if err := n.ws.Write(n.Context(), websocket.MessageText, text); err != nil {
		n.Fatal(err)
	}
	return id
}

// until reads until a message of a kind about a request, and returns its content as text. What Slipway says under a
// cell about a kernel that is slow to start or to reach is none of its output.
func (n *openKernel) until(kind, request string) string {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), testenv.Hang)
	defer cancel()
	for {
		_, data, err := n.ws.Read(ctx)
		if err != nil {
			n.Fatalf("before %s: %v", kind, err)
		}
		var m struct {
			Type   string `json:"msg_type"`
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(data, &m) == nil && m.Type == kind && m.Parent.ID == request && !isDelay(m.Content) {
			return string(m.Content)
		}
	}
}

// prints returns the line that a cell prints. ipykernel may send it in pieces, one for each word of a print.
func (n *openKernel) prints(code string) (line string) {
	n.Helper()
	request := n.run(code)
	for !strings.HasSuffix(line, "\n") {
		var said struct{ Text string }
		if err := json.Unmarshal([]byte(n.until("stream", request)), &said); err != nil {
			n.Fatal(err)
		}
		line += said.Text
	}
	return line
}

// isDelay reports whether the content of a message says only that a kernel takes its time.
func isDelay(content []byte) bool {
	return slices.ContainsFunc([]string{"Slipway: Starting the kernel", "Slipway: the kernel is not reached just now", "Slipway: the kernel is reached again"},
		func(words string) bool { return bytes.Contains(content, []byte(words)) })
}

// A Jupyter Server that knows nothing of Slipway but the address of its kernels and a token.
func TestKernelsOfAJupyterServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, kernelSite)
	j := newJupyter(t, s, "alice")
	if specs := fmt.Sprint(j.do("GET", "/api/kernelspecs", "", 200)); !strings.Contains(specs, "Python here") {
		t.Errorf("kernelspecs: %s", specs)
	}
	id := j.do("POST", "/api/kernels", `{"name": "python"}`, 201)["id"].(string)
	n := j.open(id)
	if got := n.until("execute_result", n.run("6*7")); !strings.Contains(got, `"42"`) {
		t.Errorf("6*7: %s", got)
	}
	if got := n.prints("import os; print(os.getuid(), os.getcwd()); x = 1"); !strings.Contains(got, "20000 /home/alice") {
		t.Errorf("it runs as %s", got)
	}
	busy := n.run("import time\nprint('busy', flush=True)\nwhile True: time.sleep(0.1)")
	n.until("stream", busy)
	j.do("POST", "/api/kernels/"+id+"/interrupt", "{}", 204)
	if got := n.until("error", busy); !strings.Contains(got, "KeyboardInterrupt") {
		t.Errorf("interrupted: %s", got)
	}
	j.do("POST", "/api/kernels/"+id+"/restart", "{}", 200)
	if got := n.until("error", n.run("x")); !strings.Contains(got, "NameError") {
		t.Errorf("after a restart: %s", got)
	}
	if got := s.call("bob", "GET", "/kernels/api/kernels/"+id, nil).status; got != http.StatusNotFound {
		t.Errorf("bob finds it: %d", got)
	}
	j.do("DELETE", "/api/kernels/"+id, "", 204)
	s.eventually("nothing of it is left", func() bool {
		return len(s.list("alice", "sessions")) == 0
	})
	t.Run("nbclient and papermill", func(t *testing.T) { notebooksFromOutside(t, s) })
	t.Run("VS Code", func(t *testing.T) { vsCodeFromOutside(t, s) })
}

// What a kernel says while nobody is there, not even the service, is there for who comes again.
func TestKernelOutlivesTheService(t *testing.T) {
	t.Parallel()
	s := newSite(t, kernelSite)
	j := &jupyter{t, s.url + "/kernels", "token-of-alice"}
	id := s.call("alice", http.MethodPost, "/kernels/api/kernels", `{"name": "python"}`).object(t)["id"].(string)
	n := j.open(id)
	request := n.run("import time, os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.1)\nprint('missed')\n6*7")
	if got := n.until("stream", request); !strings.Contains(got, "begun") {
		t.Errorf("before: %s", got)
	}
	s.kill()
	if err := os.WriteFile(filepath.Join(s.dir, "homes/alice/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.serve()
	n.ws = j.dial(id)
	for got := ""; !strings.Contains(got, "missed"); {
		got = n.until("stream", request) // what it had not said that it has comes again
	}
	if got := n.until("execute_result", request); !strings.Contains(got, `"42"`) {
		t.Errorf("afterwards: %s", got)
	}
	if got := n.until("execute_result", n.run("2*21")); !strings.Contains(got, `"42"`) {
		t.Errorf("and then: %s", got)
	}
	cellsOfTheLastMoment(t, s, j, n, id)
	s.call("alice", http.MethodDelete, "/kernels/api/kernels/"+id, nil)
	for i, delay := range []time.Duration{30 * time.Millisecond, 150 * time.Millisecond, 600 * time.Millisecond} {
		t.Run("killed "+delay.String()+" after the start", func(t *testing.T) { kernelOfAKilledStart(t, s, fmt.Sprintf("6d7b1d7e-0000-4000-8000-%012d", i), delay) })
	}
}

// cellsOfTheLastMoment kills the service as soon as it has heard of a cell. Each runs once, in its turn.
func cellsOfTheLastMoment(t *testing.T, s *site, j *jupyter, n *openKernel, id string) {
	const rounds = 6
	want := ""
	for i := range rounds {
		want += fmt.Sprintln(i)
		n.run(fmt.Sprintf("print(%d, file=open('ran', 'a'))", i))
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			for {
				if _, _, err := n.ws.Read(t.Context()); err != nil {
					return
				}
			}
		}()
		if err := n.ws.Ping(t.Context()); err != nil { // what came before was read
			t.Fatal(err)
		}
		s.kill()
		<-reading
		s.serve()
		n.ws = j.dial(id)
	}
	n.until("execute_result", n.run("6*7"))
	if got, err := os.ReadFile(filepath.Join(s.dir, "homes/alice/ran")); err != nil || string(got) != want {
		t.Errorf("of the cells 0 to %d these ran: %q, %v", rounds-1, got, err)
	}
}

// kernelOfAKilledStart kills the service while a kernel starts. Its client asks again: there is one kernel, in one
// container.
func kernelOfAKilledStart(t *testing.T, s *site, id string, delay time.Duration) {
	ask := func() reply {
		return s.call("alice", http.MethodPost, "/kernels/api/kernels", `{"name": "python", "env": {"KERNEL_ID": "`+id+`"}}`)
	}
	first := make(chan reply, 1)
	go func() { first <- ask() }()
	<-time.After(delay)
	s.kill()
	<-first
	s.serve()
	if again := ask(); again.status != http.StatusCreated {
		t.Fatalf("asked again: %d %s", again.status, again.body)
	}
	n := (&jupyter{t, s.url + "/kernels", "token-of-alice"}).open(id)
	if got := n.until("execute_result", n.run("6*7")); !strings.Contains(got, `"42"`) {
		t.Errorf("6*7: %s", got)
	}
	if all := s.list("alice", "sessions"); len(all) != 1 || containers(t, all[0]["id"].(string)) != 1 {
		t.Errorf("there is %v", all)
	}
	s.call("alice", http.MethodDelete, "/kernels/api/kernels/"+id, nil)
	s.eventually("it is gone", func() bool { return len(s.list("alice", "sessions")) == 0 })
}
