package kernels

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := NewJournal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func filesIn(t *testing.T, dir string) (paths []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

func saidOf(texts ...string) (list []said) {
	for _, text := range texts {
		list = append(list, said{v1: []byte(text)})
	}
	return list
}

func claimed(j *Journal, at place) string {
	messages, forget := j.claim(at)
	forget()
	return string(bytes.Join(messages, []byte(" ")))
}

var here = place{person{"main", "alice"}, "s-1", "one"}

func TestJournalGivesWhatWasNotTaken(t *testing.T) {
	dir := t.TempDir()
	p := openJournal(t, dir).page(here)
	for _, text := range []string{"1", "2", strings.Repeat("3", joined+1)} {
		p.add([]byte(text))
	}
	p.took(1, saidOf("2", "3"))
	p.add([]byte("4"))
	other := here
	other.name = "other"
	next := openJournal(t, dir)
	if got := claimed(next, other); got != "" {
		t.Errorf("another client has %q", got)
	}
	if got, want := claimed(next, here), "2 "+strings.Repeat("3", joined+1)+" 4"; got != want {
		t.Errorf("%.100q", got)
	}
	if got := claimed(next, here); got != "" {
		t.Errorf("once more: %q", got)
	}
	if left := filesIn(t, dir); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// A process can be killed in the midst of a word.
func TestJournalThatBreaksOff(t *testing.T) {
	dir := t.TempDir()
	p := openJournal(t, dir).page(here)
	p.add([]byte("first"))
	p.add([]byte("second"))
	path := filesIn(t, dir)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		if n >= recordHead+len("first") {
			want = "first"
		}
		kept, err := readPage(path)
		if got := string(bytes.Join(kept, nil)); got != want || err != nil {
			t.Errorf("of %d bytes: %q, %v", n, got, err)
		}
	}
	if err := os.WriteFile(path, append(whole, "xxxxxxxx"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept, err := readPage(path); len(kept) != 2 || err == nil {
		t.Errorf("damaged: %q, %v", kept, err)
	}
}

// A file does not grow with what was taken, and there is none for who says nothing.
func TestJournalStaysSmall(t *testing.T) {
	dir := t.TempDir()
	p := openJournal(t, dir).page(here)
	if len(filesIn(t, dir)) != 0 {
		t.Error("there is a file of who has said nothing")
	}
	text := strings.Repeat("x", 1000)
	p.add([]byte(text))
	for range 5000 {
		p.add([]byte(text))
		p.took(1, saidOf(text))
	}
	files := filesIn(t, dir)
	if i, err := os.Stat(files[0]); len(files) != 1 || err != nil || i.Size() > 2*journalMore {
		t.Errorf("%d files, %v, %v", len(files), i, err)
	}
	if got := claimed(openJournal(t, dir), here); got != text {
		t.Errorf("%d bytes wait", len(got))
	}
	p.took(1, nil)
	p.rests = time.Now().Add(-time.Hour)
	p.rest()
	if p.add([]byte("new")); len(filesIn(t, dir)) != 1 {
		t.Errorf("%q", filesIn(t, dir))
	}
	if p.close(); claimed(openJournal(t, dir), here) != "new" {
		t.Error("what waits is not left to the next process")
	}
}

func TestJournalForgetsWhatIsOld(t *testing.T) {
	dir := t.TempDir()
	openJournal(t, dir).page(here).add([]byte("old"))
	long := time.Now().Add(-journalTime - time.Minute)
	if err := os.Chtimes(filesIn(t, dir)[0], long, long); err != nil {
		t.Fatal(err)
	}
	if got := claimed(openJournal(t, dir), here); got != "" || len(filesIn(t, dir)) != 0 {
		t.Errorf("%q, %q", got, filesIn(t, dir))
	}
}

// Without room on the disk nothing is kept until all that waits is taken: what is given to the next process has no
// holes.
func TestJournalThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	p := openJournal(t, dir).page(here)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	p.add([]byte("1"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.add([]byte("2"))
	p.took(1, saidOf("2"))
	if got := fmt.Sprint(filesIn(t, dir)); got != "[]" {
		t.Error(got)
	}
	p.took(1, nil)
	p.add([]byte("3"))
	if got := claimed(openJournal(t, dir), here); got != "3" {
		t.Errorf("%q", got)
	}
}
