package secretscan

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// largeWith returns lines of text with a secret in a line of its own.
func largeWith(size int, secret string, at int) []byte {
	content := bytes.Repeat([]byte("a line of a log\n"), size/16+1)[:size]
	copy(content[at:], "\n"+secret+"\n")
	return content
}

// TestLookLarge: wherever a secret stands in a text, it is found once, in the line in which it stands; of other files
// the beginning.
func TestLookLarge(t *testing.T) {
	secret := github("ghp")
	for _, at := range []int{0, 1000, windowSize - 20, windowSize - overlap, windowSize - overlap/2 - 10, windowSize, 3*windowSize - 100, 5<<20 - 200} {
		content := largeWith(5<<20, secret, at)
		s := newScanner(t)
		looked(t, s.LookLarge("opt/big.log", int64(len(content)), bytes.NewReader(content)))
		want := 2 + bytes.Count(content[:at], []byte("\n"))
		got := s.files["/opt/big.log"]
		if len(got.findings) != 1 || got.findings[0].Line != want {
			t.Errorf("at %d: %v, want line %d", at, got.findings, want)
		}
		if got.sha256 != suspectOf(nil, content).sha256 {
			t.Errorf("at %d: the sum is not that of the file", at)
		}
	}
	binary := largeWith(3<<20, secret, 2<<20)
	binary[100] = 0
	first := largeWith(3<<20, secret, 2000)
	first[100] = 0
	far := largeWith(maxText+2*windowSize, secret, maxText+windowSize)
	s := newScanner(t)
	for name, content := range map[string][]byte{"/binary": binary, "/first": first, "/far": far} {
		looked(t, s.LookLarge(name, int64(len(content)), bytes.NewReader(content)))
	}
	if len(s.files) != 1 || len(s.files["/first"].findings) != 1 {
		t.Errorf("%v", s.files)
	}
	looked(t, s.LookLarge("/first", 2<<20, bytes.NewReader(make([]byte, 2<<20))))
	looked(t, s.LookLarge("/short", 8<<20, strings.NewReader("it was cut off")))
	if len(s.files) != 0 {
		t.Errorf("what was found before stays: %v", s.files)
	}
	if err := s.LookLarge("/bad", 8<<20, at{iotest.ErrReader(io.ErrClosedPipe)}); err == nil {
		t.Error("an error was passed over")
	}
}

// at reads from one place.
type at struct{ io.Reader }

func (a at) ReadAt(p []byte, _ int64) (int, error) { return a.Read(p) }

// TestTextsAreBounded: all together.
func TestTextsAreBounded(t *testing.T) {
	s := newScanner(t)
	s.texts.Store(maxTexts)
	content := largeWith(4<<20, github("ghp"), 2<<20)
	looked(t, s.LookLarge("/x", int64(len(content)), bytes.NewReader(content)))
	if len(s.files) != 0 {
		t.Error("it was searched beyond the bound")
	}
}

func looked(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
