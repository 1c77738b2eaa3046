package inventory

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"strings"
)

var errNoCommit = errors.New("its commit could not be read")

// treeOfCommit returns the tree that a commit has.
func (l *looker) treeOfCommit(ctx context.Context, dir, commit string) (string, error) {
	if len(commit) != 2*idLength {
		return "", errNoCommit
	}
	loose := dir + "/objects/" + commit[:2] + "/" + commit[2:]
	if n := l.tree.lookup(loose); n != nil {
		b, err := l.read(ctx, place{loose, n}, headLimit)
		if err != nil {
			return "", errNoCommit
		}
		return parseLooseCommit(b)
	}
	for _, e := range children(l.tree.lookup(dir + "/objects/pack")) {
		if path.Ext(e.Name) != ".idx" {
			continue
		}
		at := dir + "/objects/pack/" + e.Name
		b, err := l.whole(ctx, place{at, e.Node})
		if err != nil {
			return "", errNoCommit
		}
		if off, ok := packOffset(b, commit); ok {
			return l.packedCommit(ctx, strings.TrimSuffix(at, ".idx")+".pack", off)
		}
	}
	return "", errNoCommit
}

// parseLooseCommit reads an object file: "commit LENGTH\0tree ID\n...", deflated.
func parseLooseCommit(b []byte) (string, error) {
	head := inflate(b)
	kind, body, ok := bytes.Cut(head, []byte{0})
	if !ok || !bytes.HasPrefix(kind, []byte("commit ")) {
		return "", errNoCommit
	}
	return treeLine(body)
}

// treeLine returns the tree's name out of a commit's first line.
func treeLine(b []byte) (string, error) {
	id, ok := strings.CutPrefix(string(b[:min(len(b), 45)]), "tree ")
	if !ok || len(id) < 40 || !objectName.MatchString(id[:40]) {
		return "", errNoCommit
	}
	return id[:40], nil
}

// inflate returns the beginning of what is deflated.
func inflate(b []byte) []byte {
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	out := make([]byte, 256)
	n, _ := io.ReadFull(z, out) // short is fine: what is wanted stands first
	return out[:n]
}

// packOffset finds an object in a pack's index of version 2: a magic, a version, 256 counts, names, checksums, offsets.
func packOffset(b []byte, id string) (int64, bool) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != idLength || len(b) < 8+1024 || string(b[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return 0, false
	}
	count := func(i int) int { return int(binary.BigEndian.Uint32(b[8+4*i:])) }
	total := count(255)
	if total > (len(b)-8-1024)/(idLength+8) {
		return 0, false
	}
	names := b[8+1024:][:total*idLength]
	offsets := b[8+1024+total*(idLength+4):]
	low := 0
	if raw[0] > 0 {
		low = count(int(raw[0]) - 1)
	}
	for i := low; i < min(count(int(raw[0])), total); i++ {
		if bytes.Equal(names[i*idLength:(i+1)*idLength], raw) {
			off := binary.BigEndian.Uint32(offsets[4*i:])
			return int64(off), off < 1<<31 // beyond 2 GiB it is an index into another table
		}
	}
	return 0, false
}

// packedCommit reads a commit at its place in a pack. One that is stored as a difference is not read.
func (l *looker) packedCommit(ctx context.Context, pack string, off int64) (string, error) {
	n := l.tree.lookup(pack)
	if !isFile(n) || off >= size(n) {
		return "", errNoCommit
	}
	if err := l.allow(ctx, headLimit); err != nil {
		return "", err
	}
	r, err := l.tree.Open(n)
	if err != nil {
		return "", errNoCommit
	}
	b := make([]byte, min(4096, size(n)-off))
	if got, err := r.ReadAt(b, off); err != nil && (!errors.Is(err, io.EOF) || got < len(b)) {
		return "", errNoCommit
	}
	return parsePackedCommit(b)
}

// parsePackedCommit reads an object of a pack: its kind and length, seven bits a byte, then it deflated.
func parsePackedCommit(b []byte) (string, error) {
	const commit = 1
	if len(b) == 0 || b[0]>>4&7 != commit {
		return "", errNoCommit
	}
	at := 0
	for at < len(b) && b[at]&0x80 != 0 {
		at++
	}
	return treeLine(inflate(b[min(at+1, len(b)):]))
}
