package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/sif"
	"slipway/images/squashfs"
	"slipway/internal/errs"
)

func hexOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// parts returns what rebuilds the fixture's environment.
func (f *fixture) parts(tail []byte) RebuildConfig {
	f.t.Helper()
	base, err := os.Open(f.at("base"))
	must(f.t, err)
	content, err := os.ReadFile(f.at("base"))
	must(f.t, err)
	out, err := os.Create(filepath.Join(f.t.TempDir(), "rebuilt"))
	must(f.t, err)
	f.t.Cleanup(func() { base.Close(); out.Close() })
	return RebuildConfig{
		Base: base, BaseDigest: hexOf(content), Tail: bytes.NewReader(tail), TailSize: int64(len(tail)), TailDigest: hexOf(tail), Out: out, Copy: sif.CopyBase,
	}
}

func TestRebuiltEnvironmentHasTheSameBytes(t *testing.T) {
	f := newFixture(t, nastyBase)
	_, tail, _ := f.env(nastyChanges)
	want, err := os.ReadFile(f.at("env"))
	must(t, err)
	cfg := f.parts(tail)
	cfg.Offset = 32768
	n, err := Rebuild(t.Context(), cfg)
	must(t, err)
	got, err := os.ReadFile(cfg.Out.Name())
	must(t, err)
	if n != int64(len(want)) || !bytes.Equal(got[cfg.Offset:], want) {
		t.Errorf("%d bytes rebuilt, equal: %v", n, bytes.Equal(got[cfg.Offset:], want))
	}
}

func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	f := newFixture(t, nastyBase)
	_, tail, _ := f.env(nastyChanges)
	g := newFixture(t, func(root string) error { return write(filepath.Join(root, "another"), strings.Repeat("base", 1<<20)) })
	flipped := bytes.Clone(tail)
	flipped[7] ^= 1
	super, err := squashfs.ParseSuperblock(tail[len(tail)-squashfs.SuperblockSize:])
	must(t, err)
	super.InodeTable = 100
	early := super.Bytes()
	for name, change := range map[string]func(*RebuildConfig){
		"another base":            func(c *RebuildConfig) { c.Base = g.parts(tail).Base },
		"another base, its name":  func(c *RebuildConfig) { c.Base, c.BaseDigest = g.parts(tail).Base, g.parts(tail).BaseDigest },
		"base's digest":           func(c *RebuildConfig) { c.BaseDigest = hexDigest },
		"tail's digest":           func(c *RebuildConfig) { c.TailDigest = hexDigest },
		"changed tail":            func(c *RebuildConfig) { c.Tail = bytes.NewReader(flipped) },
		"short tail":              func(c *RebuildConfig) { c.TailSize -= 4096 },
		"no tail":                 func(c *RebuildConfig) { c.Tail, c.TailSize = bytes.NewReader(nil), 0 },
		"tail without superblock": func(c *RebuildConfig) { c.TailSize -= squashfs.SuperblockSize },
		"tables before the cut": func(c *RebuildConfig) {
			moved := append(bytes.Clone(tail[:len(tail)-len(early)]), early[:]...)
			c.Tail, c.TailDigest = bytes.NewReader(moved), hexOf(moved)
		},
		"base that is none": func(c *RebuildConfig) { c.Base, err = os.Open("/dev/null") },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.parts(tail)
			change(&cfg)
			if _, err := Rebuild(t.Context(), cfg); !errs.Is(err, errs.Conflict) && !errs.Is(err, errs.Invalid) {
				t.Errorf("err = %v", err)
			}
			if st, err := cfg.Out.Stat(); err != nil || st.Size() > 0 {
				t.Errorf("%d bytes are written, %v", st.Size(), err)
			}
		})
	}
}
