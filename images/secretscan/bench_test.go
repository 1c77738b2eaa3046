package secretscan

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// BenchmarkLook measures what the scan costs a byte: text like source code, and bytes like a library's.
func BenchmarkLook(b *testing.B) {
	for name, content := range map[string][]byte{"source": source(64 << 10), "binary": noise(256 << 10)} {
		b.Run(name, func(b *testing.B) {
			s := newScanner(b)
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				s.Look("/opt/file.py", content)
			}
		})
	}
}

// BenchmarkLookLarge measures the same of files that are not given whole: a text is read to its end, a library's
// beginning only.
func BenchmarkLookLarge(b *testing.B) {
	for name, content := range map[string][]byte{"source": source(16 << 20), "binary": noise(16 << 20)} {
		b.Run(name, func(b *testing.B) {
			s := newScanner(b)
			for b.Loop() {
				s.texts.Store(0)
				if err := s.LookLarge("/opt/file.py", int64(len(content)), bytes.NewReader(content)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// source returns text whose pairs of letters are those of programs.
func source(size int) []byte {
	words := []string{
		"self.", "return ", "if ", "not ", "def ", "the ", "import numpy as np\n", "token", "_authorized(", "for ", "in range(", "):\n    ",
		"\"\"\"", "key", "= ", "value", "[index]", "# of this ", "private ", "pass\n\n", "else:\n        ", "None", ", ", "has_", "public_",
	}
	random := rand.New(rand.NewPCG(1, 2))
	var out []byte
	for len(out) < size {
		out = append(out, words[random.IntN(len(words))]...)
	}
	return out[:size]
}

func noise(size int) []byte {
	random := rand.NewChaCha8([32]byte{1})
	out := make([]byte, size)
	_, _ = random.Read(out)
	return out
}

func newScanner(t testing.TB, allow ...string) *Scanner {
	t.Helper()
	s, err := New(Config{Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
