package graft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

// packs keeps the packs of a series of grafts in memory.
type packs struct {
	by   map[string]*hook
	made int
}

func (p *packs) open(name string) (io.ReaderAt, int64, error) {
	made, ok := p.by[name]
	if !ok {
		return nil, 0, os.ErrNotExist
	}
	return made, int64(made.Len()), nil
}

// add returns the configuration of a graft that knows what the last one did.
func (p *packs) add(c *Config, known *Memory) *hook {
	made := &hook{fn: func() {}}
	c.Pack, c.PackName, c.Known, c.OpenPack = made, fmt.Sprint("pack", p.made), known, p.open
	p.made++
	p.by[c.PackName] = made
	return made
}

// tail puts the extents of a result together.
func (p *packs) tail(r Result) (out []byte) {
	for _, e := range r.Tail {
		out = append(out, p.by[e.Pack].Bytes()[e.Offset:e.Offset+e.Length]...)
	}
	return out
}

// kept writes a memory down and reads it again.
func kept(t *testing.T, r Result, except ...string) *Memory {
	t.Helper()
	m, err := ParseMemory(r.Remember(except).Encode())
	must(t, err)
	return m
}

// TestAGraftThatRemembersIsOneFromScratch changes a tree at random, and grafts it each time with the memory of the time
// before and without: the tails are the same byte for byte, and so are the trees that they show.
func TestAGraftThatRemembersIsOneFromScratch(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	random := rand.New(rand.NewPCG(7, 7))
	f.change(func(root string) error { return manyFiles(root, random, 600) })
	store := &packs{by: map[string]*hook{}}
	var known *Memory
	for round := range testenv.Rounds(3, 12) {
		r, tail := f.graft(func(c *Config) {
			store.add(c, known)
			c.Pause = func(context.Context) error {
				if round%2 == 1 { // what changes at the last moment is laid out like all else
					f.change(func(root string) error { return churn(root, random, 2) })
				}
				return nil
			}
		})
		scratch, want := f.graft(nil)
		if !bytes.Equal(tail, want) || r.Super != scratch.Super || r.State != scratch.State {
			t.Fatalf("round %d: %d bytes, and %d from scratch, or not the same", round, len(tail), len(want))
		}
		if !bytes.Equal(store.tail(r), want) {
			t.Fatalf("round %d: the extents are not the tail", round)
		}
		if round%4 == 0 {
			f.equal(f.list(), r, tail)
		}
		known = kept(t, r)
		f.change(func(root string) error { return churn(root, random, 1+round) })
	}
}

func manyFiles(root string, random *rand.Rand, n int) error {
	var all []error
	for i := range n {
		size := random.IntN(9000)
		if i%40 == 0 {
			size = random.IntN(600_000)
		}
		all = append(all, write(filepath.Join(root, fmt.Sprintf("opt/many/%d/%d", i%17, i)), noise(random, size)))
	}
	return errors.Join(all...)
}

func noise(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + random.IntN(4))
	}
	return string(b)
}

// churn makes n changes of every sort.
func churn(root string, random *rand.Rand, n int) error {
	many := func() string {
		return filepath.Join(root, fmt.Sprintf("opt/many/%d/%d", random.IntN(17), random.IntN(600)))
	}
	var all []error
	for range n {
		switch random.IntN(7) {
		case 0:
			all = append(all, write(many(), noise(random, random.IntN(300_000))))
		case 1:
			os.Remove(many())
		case 2:
			os.Rename(many(), many())
		case 3:
			os.Link(many(), filepath.Join(root, fmt.Sprint("opt/link", random.Uint32())))
		case 4:
			dir := fmt.Sprintf("opt/many/%d", random.IntN(17))
			os.Rename(filepath.Join(root, dir), filepath.Join(root, dir+"-"))
			os.Rename(filepath.Join(root, fmt.Sprintf("opt/many/%d-", random.IntN(17))), filepath.Join(root, dir))
		case 5:
			os.Truncate(many(), int64(random.IntN(200_000)))
		default:
			all = append(all, write(many(), noise(random, random.IntN(3000))))
		}
	}
	return errors.Join(all...)
}

// TestOnlyWhatIsNewIsReadAndStored: after a megabyte of change little more than that goes into the pack, and nobody
// looks at the rest.
func TestOnlyWhatIsNewIsReadAndStored(t *testing.T) {
	f := newFixture(t, nastyBase)
	random := rand.New(rand.NewPCG(1, 2))
	f.change(func(root string) error { return manyFiles(root, random, 1500) })
	store := &packs{by: map[string]*hook{}}
	first, _ := f.graft(func(c *Config) { store.add(c, nil) })
	known := kept(t, first)
	f.change(func(root string) error { return write(filepath.Join(root, "opt/many/5/new"), noise(random, 100_000)) })
	var looked sightings
	var made *hook
	f.graft(func(c *Config) {
		made = store.add(c, known)
		c.Look = looked.add
	})
	if looked.String() != "/opt/many/5/new" {
		t.Errorf("looked at %s", &looked)
	}
	if was := store.by["pack0"].Len(); made.Len() > was/4 {
		t.Errorf("%d bytes were stored, after %d", made.Len(), was)
	}
}

// TestWhatMustNotBeRememberedIsReadAgain: a file that is named, another path, and another meaning of what is stored.
func TestWhatMustNotBeRememberedIsReadAgain(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		return errors.Join(write(filepath.Join(root, "opt/secret"), "s"), write(filepath.Join(root, "opt/dir/a"), "a"), write(filepath.Join(root, "opt/b"), "b"))
	})
	store := &packs{by: map[string]*hook{}}
	first, _ := f.graft(func(c *Config) { store.add(c, nil) })
	known := kept(t, first, "/opt/secret")
	f.change(func(root string) error {
		return os.Rename(filepath.Join(root, "opt/dir"), filepath.Join(root, "opt/moved"))
	})
	again := func(change func(*Config)) string {
		var looked sightings
		f.graft(func(c *Config) {
			store.add(c, known)
			c.Workers = 1
			c.Look = looked.add
			c.Pause = nil
			change(c)
		})
		return looked.String()
	}
	if got := again(func(*Config) {}); !strings.Contains(got, "/opt/moved/a") || !strings.Contains(got, "/opt/secret") || strings.Contains(got, "/opt/b") {
		t.Errorf("looked at %s", got)
	}
	if got := again(func(c *Config) { c.About = "other rules" }); !strings.Contains(got, "/opt/b") {
		t.Errorf("looked at %s", got)
	}
	delete(store.by, "pack0")
	if got := again(func(*Config) {}); !strings.Contains(got, "/opt/b") {
		t.Errorf("with its pack gone, looked at %s", got)
	}
}

// TestDamagedPacksAreSeen flips a byte of what an earlier graft has stored, and cuts it.
func TestDamagedPacksAreSeen(t *testing.T) {
	f := newFixture(t, nastyBase)
	random := rand.New(rand.NewPCG(1, 2))
	f.change(func(root string) error { return manyFiles(root, random, 50) })
	store := &packs{by: map[string]*hook{}}
	first, _ := f.graft(func(c *Config) { store.add(c, nil) })
	known := kept(t, first)
	f.change(func(root string) error { return write(filepath.Join(root, "opt/new"), "new") })
	whole := bytes.Clone(store.by["pack0"].Bytes())
	for name, harm := range map[string]func(b []byte) []byte{
		"flipped": func(b []byte) []byte { b[len(b)/4] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:100] },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := &hook{fn: func() {}}
			damaged.Buffer.Write(harm(bytes.Clone(whole)))
			store.by["pack0"] = damaged
			cfg := f.config(io.Discard)
			store.add(&cfg, known)
			if _, err := Graft(t.Context(), cfg); !errors.Is(err, ErrMemory) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// TestPacksThatAreHardlyUsedAreLeft: what is still needed of one moves, and the tail stays the same.
func TestPacksThatAreHardlyUsedAreLeft(t *testing.T) {
	f := newFixture(t, nastyBase)
	random := rand.New(rand.NewPCG(3, 4))
	f.change(func(root string) error { return manyFiles(root, random, 300) })
	store := &packs{by: map[string]*hook{}}
	first, _ := f.graft(func(c *Config) { store.add(c, nil) })
	f.change(func(root string) error {
		for i := range 16 {
			must(t, os.RemoveAll(filepath.Join(root, fmt.Sprintf("opt/many/%d", i))))
		}
		return nil
	})
	second, tail := f.graft(func(c *Config) { store.add(c, kept(t, first)) })
	for _, e := range second.Tail {
		if e.Pack == "pack0" {
			t.Fatalf("the first pack is still needed: %+v", second.Tail)
		}
	}
	delete(store.by, "pack0")
	if !bytes.Equal(store.tail(second), tail) {
		t.Error("the extents are not the tail")
	}
	third, again := f.graft(func(c *Config) { store.add(c, kept(t, second)) })
	if !bytes.Equal(again, tail) || !bytes.Equal(store.tail(third), tail) {
		t.Error("unchanged, and another tail")
	}
}

func FuzzParseMemory(f *testing.F) {
	f.Add(appendText(nil, "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMemory(b)
		if err != nil {
			return
		}
		r := &reader{b: m.data, packs: []*pack{{}, {}}, block: 4096}
		for len(r.b) > 0 && !r.bad {
			r.note()
		}
	})
}

// sightings are the paths at which Look was called, by several goroutines.
type sightings struct {
	mu    sync.Mutex
	paths []string
}

func (s *sightings) add(path string, _ []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, path)
}

func (s *sightings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.paths, " ")
}
