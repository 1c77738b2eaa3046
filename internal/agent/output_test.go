package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/agent/control"
)

func readOutput(t *testing.T, o *output, from int64) string {
	t.Helper()
	var all bytes.Buffer
	buf := make([]byte, 7)
	for {
		n, next, more, err := o.readAt(buf, from)
		if errors.Is(err, io.EOF) || more != nil {
			return all.String()
		}
		if err != nil || n == 0 {
			t.Fatalf("read at %d: %d bytes, %v", from, n, err)
		}
		all.Write(buf[:n])
		from = next
	}
}

// A job's output keeps its beginning and says what was cut; a session's keeps its end, and offsets go on counting.
func TestOutputIsBounded(t *testing.T) {
	var printed strings.Builder
	first, err := newOutput(filepath.Join(t.TempDir(), "log"), 1000, false)
	if err != nil {
		t.Fatal(err)
	}
	recent, err := newOutput(filepath.Join(t.TempDir(), "log"), 1000, true)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		line := fmt.Sprintf("line %d\n", n)
		printed.WriteString(line)
		_, _ = io.WriteString(first, line)
		_, _ = io.WriteString(recent, line)
	}
	all := printed.String()
	if got := readOutput(t, first, 0); got[:1000] != all[:1000] || !strings.HasSuffix(got, "the rest of it was not kept\n") || len(got) > 1100 {
		t.Errorf("beginning: %d bytes, ends with %q", len(got), got[max(0, len(got)-100):])
	}
	if got := readOutput(t, recent, 0); !strings.HasSuffix(all, got) || len(got) < 500 || len(got) > 1000 {
		t.Errorf("end: %d bytes %q", len(got), got)
	}
	if recent.total() != int64(len(all)) {
		t.Errorf("size %d, printed %d", recent.total(), len(all))
	}
	if got := readOutput(t, recent, int64(len(all)-9)); got != "line 999\n" {
		t.Errorf("from near the end: %q", got)
	}
	huge := strings.Repeat("x", 5000) + "end"
	_, _ = io.WriteString(recent, huge)
	if got := readOutput(t, recent, 0); !strings.HasSuffix(got, "xend") || len(got) > 1000 {
		t.Errorf("after one huge write: %d bytes", len(got))
	}
	_, more, _, _ := recent.readAt(make([]byte, 1), recent.total())
	if more != recent.total() {
		t.Errorf("offset at the end: %d", more)
	}
}

// Bytes of every value pass unchanged, and in the amount that they were printed.
func TestBinaryAndHugeLog(t *testing.T) {
	r := newRig(t, func(c *Config) { c.KeepLog = 8 << 20 })
	app := shell(`head -c 3000000 /dev/urandom | tee random; head -c 20000000 /dev/zero; echo lost`)
	st := r.launch(t, app, control.Exited)
	got := r.log(t, 0, true)
	body, _, err := r.client.File(t.Context(), "random")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	want, err := io.ReadAll(body)
	if err != nil || len(want) != 3000000 || !strings.HasPrefix(got, string(want)) {
		t.Errorf("binary output was changed (%d bytes, %v)", len(want), err)
	}
	if !strings.HasSuffix(got, "the rest of it was not kept\nslipway: 14611397 bytes were printed after that\n") || int64(len(got)) != st.LogSize || len(got) > 8<<20+200 {
		t.Errorf("%d bytes kept, size %d", len(got), st.LogSize)
	}
}

// A process that the app left behind does not hold up the news of the app's end.
func TestLeftoversEndWithTheApp(t *testing.T) {
	r := newRig(t)
	st := r.launch(t, shell("sleep 600 & echo $!"), control.Exited)
	if st.ExitCode != 0 || strings.TrimSpace(r.log(t, 0, true)) == "" {
		t.Errorf("%+v", st)
	}
}
