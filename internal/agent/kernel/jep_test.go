package kernel

import (
	"encoding/json"
	"fmt"
	"testing"

	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

// debug sends one request of the debugger's protocol and gives the answer's body.
func (c *client) debug(seq int, command string, arguments any) map[string]any {
	c.t.Helper()
	id := c.askDebugger(seq, command, arguments)
	m := c.until(func(m wire.Message) bool { return m.Type() == "debug_reply" && m.ParentID() == id })
	var said struct {
		Success bool
		Body    map[string]any
	}
	if err := json.Unmarshal(m.Content, &said); err != nil || !said.Success || m.Channel != wire.Control {
		c.t.Fatalf("%s: %s on %s", command, m.Content, m.Channel)
	}
	return said.Body
}

func (c *client) askDebugger(seq int, command string, arguments any) string {
	c.t.Helper()
	return c.send(wire.Control, "debug_request", map[string]any{"type": "request", "seq": seq, "command": command, "arguments": arguments})
}

// debugger stops a cell at a line, as JupyterLab's debugger does it, and has it go on.
func debugger(t *testing.T, _ *rig, c *client) {
	c.debug(1, "initialize", map[string]any{"clientID": "test", "adapterID": "", "pathFormat": "path", "linesStartAt1": true, "columnsStartAt1": true})
	c.debug(2, "attach", map[string]any{})
	const code = "stopped = 1\nstopped = 2\nprint(stopped)"
	path := c.debug(3, "dumpCell", map[string]any{"code": code})["sourcePath"]
	c.debug(4, "setBreakpoints", map[string]any{"breakpoints": []any{map[string]any{"line": 2}}, "source": map[string]any{"path": path}, "sourceModified": false})
	c.debug(5, "configurationDone", map[string]any{})
	id := c.execute(code)
	stop := c.until(func(m wire.Message) bool {
		var e struct{ Event string }
		_ = json.Unmarshal(m.Content, &e)
		return m.Type() == "debug_event" && e.Event == "stopped"
	})
	var e struct{ Body struct{ ThreadID int } }
	if err := json.Unmarshal(stop.Content, &e); err != nil || stop.Channel != wire.IOPub {
		t.Fatalf("%s", stop.Content)
	}
	if frames, _ := c.debug(6, "stackTrace", map[string]any{"threadId": e.Body.ThreadID})["stackFrames"].([]any); len(frames) == 0 {
		t.Error("it has stopped nowhere")
	}
	c.askDebugger(7, "continue", map[string]any{"threadId": e.Body.ThreadID})
	if out, status := c.result(id); out != "2\n" || status != "ok" {
		t.Errorf("%q, %s", out, status)
	}
	c.debug(8, "disconnect", map[string]any{"restart": false, "terminateDebuggee": false})
}

// subshells answer while a cell computes.
func subshells(t *testing.T, r *rig, c *client) {
	made := c.send(wire.Control, "create_subshell_request", struct{}{})
	m := c.until(func(m wire.Message) bool { return m.Type() == "create_subshell_reply" && m.ParentID() == made })
	var shell struct {
		ID string `json:"subshell_id"`
	}
	if err := json.Unmarshal(m.Content, &shell); err != nil || shell.ID == "" {
		t.Fatalf("%s", m.Content)
	}
	long := c.execute("print('begins', flush=True)\nimport time\nwhile 'go' not in globals(): time.sleep(0.01)\nprint('over')")
	c.until(func(m wire.Message) bool { return m.ParentID() == long && m.Type() == "stream" })
	beside := c.executeIn(shell.ID, "print('beside')")
	if out, status := c.result(beside); out != "beside\n" || status != "ok" {
		t.Errorf("%q, %s", out, status)
	}
	if s := r.Status(); s.State != "busy" {
		t.Errorf("one of two is done: %+v", s)
	}
	c.executeIn(shell.ID, "go = 1")
	if out, status := c.result(long); out != "over\n" || status != "ok" {
		t.Errorf("%q, %s", out, status)
	}
	testenv.Until(t, "the kernel is idle", patience, func() bool { return r.Status().State == "idle" })
	c.send(wire.Control, "delete_subshell_request", map[string]string{"subshell_id": shell.ID})
	c.until(func(m wire.Message) bool { return m.Type() == "delete_subshell_reply" })
}

// executeIn has a cell run in a subshell.
func (c *client) executeIn(shell, code string) string {
	c.t.Helper()
	m, err := wire.New(wire.Shell, "execute_request", nil, map[string]any{"code": code, "silent": false, "store_history": true, "allow_stdin": false, "user_expressions": map[string]any{}, "stop_on_error": true})
	if err != nil {
		c.t.Fatal(err)
	}
	m.Header = json.RawMessage(fmt.Sprintf(`{"msg_id": %q, "msg_type": "execute_request", "session": "client", "username": "", "version": "5.5", "date": "2026-01-01T00:00:00.000000Z", "subshell_id": %q}`, m.ID(), shell))
	if err := wire.WriteMessage(c.conn, wire.EncodeV1(m)); err != nil {
		c.t.Fatal(err)
	}
	return m.ID()
}
