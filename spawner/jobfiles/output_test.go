package jobfiles_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// app is a Source: its output, and its files.
type app struct {
	log   string
	files map[string]string
}

// Log returns the output.
func (a app) Log(_ context.Context, from int64, _ bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(a.log[min(from, int64(len(a.log))):])), nil
}

// File returns a file.
func (a app) File(_ context.Context, name string) (io.ReadCloser, int64, error) {
	text, there := a.files[name]
	if !there {
		return nil, 0, errs.New(errs.NotFound, "there is no %s", name)
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}

func named(names ...string) (files []control.File) {
	for _, n := range names {
		files = append(files, control.File{Name: n})
	}
	return files
}

// TestFetch: what can never be had is named, what cannot be had now is an error, and what is here is not fetched again.
func TestFetch(t *testing.T) {
	s := newSite(t)
	s.config.Output = 10
	s.restart()
	from := app{files: map[string]string{"a": "12345678", "b": "12345678", "c": "12", ".": "1", "..": "1", "../c": "1"}}
	lost, err := s.Fetch(t.Context(), "j-1", from, named("a", "gone", "b", ".", "..", "../c", "c"))
	if err != nil || len(lost) != 5 || !strings.Contains(lost[1], "have at most 10 B in all") {
		t.Errorf("%q, %v", lost, err)
	}
	for _, l := range lost[2:] {
		if !strings.Contains(l, "a name without directories") {
			t.Errorf("lost: %s", l)
		}
	}
	files, err := s.Files("j-1")
	if want := []control.File{{Name: "a", Size: 8}, {Name: "c", Size: 2}}; !slices.Equal(files, want) || err != nil {
		t.Errorf("%v, %v", files, err)
	}
	if lost, err := s.Fetch(t.Context(), "j-1", app{}, named("a", "c")); len(lost) > 0 || err != nil {
		t.Errorf("once more: %q, %v", lost, err)
	}
	s.write("workloads/j-1/files/.new-1", "half")
	if files, _ := s.Files("j-1"); len(files) != 2 {
		t.Errorf("with one that is being fetched: %v", files)
	}
	s.config.Room = func(string) (int64, error) { return 2, nil }
	s.restart()
	if lost, err := s.Fetch(t.Context(), "j-2", from, named("c", "a")); len(lost) > 0 || !jobfiles.Full(err) {
		t.Errorf("on a full disk: %q, %v", lost, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Fetch(done, "j-3", from, named("c")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if files, err := s.Files("j-3"); len(files) > 0 || err != nil {
		t.Errorf("canceled, and it has %v, %v", files, err)
	}
}

// TestFilesUnreadable: a job of which the files cannot be listed is not one without files.
func TestFilesUnreadable(t *testing.T) {
	s := newSite(t)
	s.write("workloads/j-1/files", "no directory")
	if files, err := s.Files("j-1"); err == nil {
		t.Errorf("%v", files)
	}
}

// TestFile: an output file is one in the job's own directory.
func TestFile(t *testing.T) {
	s := newSite(t)
	s.write("workloads/j-1/files/a", "text")
	s.write("workloads/j-1/files/dir/b", "text")
	s.write("workloads/j-1/secret", "text")
	if err := os.Symlink("../secret", s.Dir("j-1")+"/files/link"); err != nil {
		t.Fatal(err)
	}
	r, size, err := s.File("j-1", "a")
	if err != nil || size != 4 {
		t.Fatalf("%d, %v", size, err)
	}
	r.Close()
	for _, name := range []string{"b", "dir", "../secret", "link", ""} {
		if _, _, err := s.File("j-1", name); !errs.Is(err, errs.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, _, err := s.File("j-2", "a"); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

// TestCopyLog: a copy goes on where the last one ended, and says so; it is bounded.
func TestCopyLog(t *testing.T) {
	s := newSite(t)
	s.write("workloads/j-1/log", "one ")
	wrote := 0
	for range 2 {
		if err := s.CopyLog(t.Context(), "j-1", app{log: "one two"}, false, func() { wrote++ }); err != nil {
			t.Fatal(err)
		}
	}
	if text := readLog(t, s, "j-1", 0); text != "one two" || wrote != 1 || s.LogSize("j-1") != 7 {
		t.Errorf("%q, %d parts, %d bytes", text, wrote, s.LogSize("j-1"))
	}
	if err := os.Truncate(s.Dir("j-1")+"/log", control.LogLimit-3); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := s.CopyLog(t.Context(), "j-1", endless{}, false, func() {})
		if err != nil || s.LogSize("j-1") != control.LogLimit {
			t.Errorf("%d, %v", s.LogSize("j-1"), err)
		}
	}
}

// endless prints more whatever it is asked for.
type endless struct{ app }

// Log returns more.
func (endless) Log(context.Context, int64, bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("more and more")), nil
}

func readLog(t *testing.T, s *site, id spawner.ID, from int64) string {
	t.Helper()
	f, err := s.OpenLog(id, from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOpenLog: from an offset, and from the start if the log is shorter; before it exists it is empty.
func TestOpenLog(t *testing.T) {
	s := newSite(t)
	s.write("workloads/j-1/log", "one two")
	for from, want := range map[int64]string{0: "one two", 4: "two", 7: "", 8: "one two"} {
		if got := readLog(t, s, "j-1", from); got != want {
			t.Errorf("from %d: %q", from, got)
		}
	}
	if _, err := s.OpenLog("j-1", -1); !errs.Is(err, errs.Invalid) {
		t.Error(err)
	}
	if got := readLog(t, s, "j-2", 0); got != "" || s.LogSize("j-2") != 0 || s.LogSize("j-3") != 0 {
		t.Errorf("%q", got)
	}
}

// TestFollowLog: a reader waits for more, goes on with the log of the next try, and ends with the job.
func TestFollowLog(t *testing.T) {
	s := newSite(t)
	s.write("workloads/j-1/log", "one")
	step := 0
	steps := []func(){
		func() {},
		func() { s.write("workloads/j-1/more", "xx") }, // nothing of the log
		func() {
			if err := s.ClearTry("j-1"); err != nil {
				t.Fatal(err)
			}
		},
		func() { s.write("workloads/j-1/log", "two") },
		func() {},
	}
	watch := func() (<-chan struct{}, bool) {
		changed := make(chan struct{})
		close(changed)
		steps[min(step, len(steps)-1)]()
		step++
		return changed, step < len(steps)
	}
	r, err := s.FollowLog(t.Context(), "j-1", 0, watch)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); string(text) != "onetwo" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	waiting, err := s.FollowLog(done, "j-2", 0, func() (<-chan struct{}, bool) { return nil, true })
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if _, err := io.ReadAll(waiting); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTail: the last lines, as text.
func TestTail(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"one":                 "one",
		"one\ntwo\n":          "one\ntwo",
		"one\ntwo\nthree\n\n": "two\nthree",
		"a\nb\xff\nc":         "b\uFFFD\nc",
	} {
		if got, err := jobfiles.Tail(strings.NewReader(text), 2); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
