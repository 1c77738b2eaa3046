package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/internal/cli"
)

// interrupted ends what it is given with the first line that it gets.
type interrupted struct {
	mu   sync.Mutex
	all  bytes.Buffer
	stop func()
}

// Write takes a line.
func (w *interrupted) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	return w.all.Write(b)
}

// TestCtrlCStopsWatchingOnly says so, and how to go on.
func TestCtrlCStopsWatchingOnly(t *testing.T) {
	service, err := newStubService(filepath.Join("..", "..", "hubapi", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	defer service.close()
	ctx, stop := context.WithCancel(t.Context())
	var errors bytes.Buffer
	env := map[string]string{"SLIPWAY_URL": service.url, "SLIPWAY_TOKEN": "alice-token"}
	code := cli.Run(ctx, []string{"jobs", "watch", "scan-0123456789abcdef"}, cli.Env{
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(""), Stdout: &interrupted{stop: stop}, Stderr: &errors,
	})
	if code != 130 || !strings.Contains(errors.String(), "stopped watching; scan scan-0123456789abcdef runs on\n  -> `slipway jobs watch scan-0123456789abcdef` shows it") {
		t.Errorf("%d: %s", code, errors.String())
	}
}
