package blob

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestJoinReadsAcrossItsSeams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("..HELLO, .."), 0o600); err != nil {
		t.Fatal(err)
	}
	middle, err := Part(path, 2, 7)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := Join(Bytes(nil), Bytes([]byte("<")), middle, Bytes(nil), Bytes([]byte("WORLD")), whole)
	want := "<HELLO, WORLD..HELLO, .."
	if b.Size() != int64(len(want)) {
		t.Errorf("size %d", b.Size())
	}
	if err := iotest.TestReader(Reader(b), []byte(want)); err != nil {
		t.Error(err)
	}
	for range 1000 {
		from := rand.IntN(len(want) + 1)
		p := make([]byte, rand.IntN(len(want)+3-from))
		n, err := b.ReadAt(p, int64(from))
		if got := string(p[:n]); got != want[from:min(len(want), from+len(p))] || (err == io.EOF) != (from+len(p) > len(want)) {
			t.Fatalf("%d bytes at %d: %q, %v", len(p), from, got, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.ReadAt(make([]byte, 9), 0); err == nil {
		t.Error("it was read after Close")
	}
}

func TestAPieceThatEndsEarlyIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, place := range [][2]int64{{0, 9}, {5, 4}, {-1, 2}, {9, 0}, {1 << 62, 1 << 62}, {3, -1}} {
		if b, err := Part(path, place[0], place[1]); err == nil {
			t.Errorf("%v of 8 bytes gave %d", place, b.Size())
		}
	}
	if _, err := Open(filepath.Dir(path)); err == nil {
		t.Error("a directory was opened")
	}
	piece, err := Part(path, 2, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer piece.Close()
	if err := os.Truncate(path, 4); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, Reader(Join(piece, Bytes([]byte("end")))))
	if err == nil || !strings.Contains(err.Error(), "piece 0 ends") {
		t.Errorf("a file cut short under a blob: %v", err)
	}
}

func TestDigests(t *testing.T) {
	d := Digest([]byte("x"))
	name, ok := Hex(d)
	if !ok || d != Prefix+name {
		t.Errorf("%q gives %q, %v", d, name, ok)
	}
	for _, bad := range []string{"", Prefix, name, strings.ToUpper(d), d + "0", d[:70], "sha512:" + name, Prefix + "../" + name[3:], d + "\n"} {
		if _, ok := Hex(bad); ok {
			t.Errorf("%q is taken for a digest", bad)
		}
	}
	if got, _ := io.ReadAll(Reader(Bytes(bytes.Repeat([]byte("ab"), 3)))); string(got) != "ababab" {
		t.Errorf("%q", got)
	}
}
