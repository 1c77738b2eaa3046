package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

// hostile is a client of an agent that answers every request with the same bytes.
func hostile(t *testing.T, answer func(io.Writer)) Client {
	return Client{Dial: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			if _, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
				answer(there)
			}
		}()
		t.Cleanup(func() { _ = here.Close() })
		return here, nil
	}}
}

func text(s string) func(io.Writer) { return func(w io.Writer) { _, _ = io.WriteString(w, s) } }

func body(s string) func(io.Writer) {
	return text(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s), s))
}

func endless(prefix, piece string) func(io.Writer) {
	return func(w io.Writer) {
		_, _ = io.WriteString(w, prefix)
		for {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	}
}

func TestHostileAnswers(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n\r\n"
	for name, answer := range map[string]func(io.Writer){
		"garbage":          text("\x00\xff garbage"),
		"nothing":          text(""),
		"no JSON":          body("hello"),
		"unknown state":    body(`{"state":"sleeping"}`),
		"endless header":   endless("HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("a", 1000)+"\r\n"),
		"endless body":     endless(head, strings.Repeat(" ", 64<<10)),
		"endless statuses": endless(head, `{"state":"ready"}`+"\n"),
		"redirect":         text("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"),
		"error, no JSON":   text("HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"),
	} {
		t.Run(name, func(t *testing.T) {
			c := hostile(t, answer)
			if name != "endless statuses" {
				if _, err := c.Status(t.Context()); !errs.Is(err, errs.Unavailable) {
					t.Errorf("status: %v", err)
				}
			}
			if err := c.Watch(t.Context(), func(Status) error { return nil }); name != "nothing" && !errs.Is(err, errs.Unavailable) {
				t.Errorf("watch: %v", err)
			}
		})
	}
}

// What a status says is cut to what an agent may say.
func TestStatusIsCut(t *testing.T) {
	c := hostile(t, body(`{"state":"exited","exit_code":99999,"log_size":-5,"reason":"bad\u001b[2J","fault":"worse\u001b[2J","max_rss":-1,"files":[
		{"name":"../../etc/passwd","size":1},{"name":"/abs","size":1},{"name":"good.txt","size":2},{"name":"..","size":1},{"name":"minus","size":-1},{"name":"a\nb","size":1}]}`))
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Status{State: Exited, ExitCode: 255, Reason: "bad[2J", Fault: "worse[2J", Files: []File{{"good.txt", 2}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a payload says of its progress is cut to what can be shown.
func TestProgressIsCut(t *testing.T) {
	for said, want := range map[string]Progress{
		`{"done":3,"of":10,"text":"epoch 3"}`:                                    {3, 10, "epoch 3"},
		`{"done":-1,"of":1e300,"text":"two\nlines\u001b[2J"}`:                    {0, mostProgress, "two lines[2J"},
		`{"done":1,"text":"` + strings.Repeat("é", ProgressLimit) + `"}`:         {1, 0, strings.Repeat("é", ProgressLimit/2)},
		`{"done":1,"of":1,"text":"` + strings.Repeat(" x", ProgressLimit) + `"}`: {1, 1, strings.TrimSpace(strings.Repeat("x ", ProgressLimit/2))},
	} {
		if st, err := ParseStatus([]byte(`{"state":"ready","progress":` + said + `}`)); err != nil || *st.Progress != want && strings.TrimSpace(st.Progress.Text) != want.Text {
			t.Errorf("%.60s: %+v, %v", said, st.Progress, err)
		}
	}
}

// A fault belongs to an app that was not started, and has its bound.
func TestFaultIsCut(t *testing.T) {
	for said, want := range map[string]string{
		`{"state":"ready","fault":"late"}`:                                    "",
		`{"state":"starting","fault":"early"}`:                                "",
		`{"state":"exited","fault":"memory limit"}`:                           "memory limit",
		`{"state":"exited","fault":"` + strings.Repeat("x", 2*maxText) + `"}`: strings.Repeat("x", maxText) + "... (8192 bytes)",
	} {
		if st, err := ParseStatus([]byte(said)); err != nil || st.Fault != want {
			t.Errorf("%.50s: %.50q, %v", said, st.Fault, err)
		}
	}
}

func TestFileIsBounded(t *testing.T) {
	for name, answer := range map[string]func(io.Writer){
		"no length": endless("HTTP/1.1 200 OK\r\n\r\n", "x"),
		"too long":  endless(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", FileLimit+1), "x"),
	} {
		if _, _, err := hostile(t, answer).File(t.Context(), "f"); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := hostile(t, text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"))
	r, size, err := short.File(t.Context(), "f")
	if err != nil || size != 10 {
		t.Fatal(size, err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that ends early: %v", err)
	}
	_ = r.Close()
}

func TestErrorsKeepTheirKind(t *testing.T) {
	c := Client{Dial: func(context.Context) (net.Conn, error) { return nil, errs.New(errs.Unavailable, "no link") }}
	if err := c.End(t.Context()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("no link: %v", err)
	}
	fault := `{"error":{"code":"conflict","message":"launched \u001balready","field":"f"}}`
	c = hostile(t, text(fmt.Sprintf("HTTP/1.1 409 C\r\nContent-Length: %d\r\n\r\n%s", len(fault), fault)))
	err := c.Launch(t.Context(), App{Launch: "l"})
	if e, ok := errors.AsType[*errs.Error](err); !ok || e.Kind != errs.Conflict || e.Message != "launched already" || e.Field != "f" {
		t.Errorf("conflict: %#v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stuck := hostile(t, func(io.Writer) { cancel(); <-t.Context().Done() })
	if _, err := stuck.Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stuck agent: %v", err)
	}
}

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		"a.txt": true, "ünï": true, ".hidden": true, "a b": true, strings.Repeat("a", 255): true,
		"": false, ".": false, "..": false, "../a": false, "..a": false, "a/b": false, "/a": false, "a\x00": false, "a\nb": false,
		`a\b`: false, "\xff": false, strings.Repeat("a", 256): false, TempPrefix + "1": false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, f := range []func(string) error{
		func(n string) error { return Client{}.Put(t.Context(), n, 0, strings.NewReader("")) },
		func(n string) error { _, _, err := Client{}.File(t.Context(), n); return err },
	} {
		if err := f("../x"); !errs.Is(err, errs.Invalid) {
			t.Errorf("a bad name is sent: %v", err)
		}
	}
}

func TestEnvIsNotPrinted(t *testing.T) {
	app := App{Env: Env{"TOKEN": "hush"}}
	if s := fmt.Sprintf("%v %+v %#v %s", app, app, app, app.Env); strings.Contains(s, "hush") {
		t.Error(s)
	}
}

func FuzzStatuses(f *testing.F) {
	f.Add(`{"state":"ready"}` + "\n" + `{"state":"exited","files":[{"name":"a","size":1}]}`)
	f.Add("{}\n[]\nnull")
	f.Fuzz(func(t *testing.T, s string) {
		_ = readStatuses(strings.NewReader(s), func(st Status) error {
			for _, file := range st.Files {
				if CheckName(file.Name) != nil || file.Size < 0 {
					t.Errorf("file %+v", file)
				}
			}
			if st.ExitCode < 0 || st.ExitCode > 255 || st.LogSize < 0 || len(st.Reason) > 2*maxText {
				t.Errorf("status %+v", st)
			}
			return nil
		})
	})
}
