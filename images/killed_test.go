package images

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/sif"
	"slipway/images/signing"
	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// envKilled has the arguments of the process that TestKilledAtAnyInstant kills: directory of the library, of the keys,
// upper, layers.
const envKilled = "SLIPWAY_TEST_KILLED"

func keysIn(t testing.TB, dir string) *signing.Keys {
	t.Helper()
	keys, err := signing.New(signing.Config{Dir: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler), Site: "here"})
	must(t, err)
	return keys
}

// TestServiceToBeKilled is the service that TestKilledAtAnyInstant kills.
func TestServiceToBeKilled(t *testing.T) {
	args := strings.Split(os.Getenv(envKilled), "\n")
	if len(args) < 4 {
		return
	}
	f := &fixture{t: t, upper: args[2], layers: args[3:]}
	l := openLibrary(t, Config{Dir: args[0], Keys: keysIn(t, args[1])})
	fmt.Println("open")
	_, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Name: "ana", Source: f.source()})
	must(t, err)
	digest := <-l.pending
	must(t, l.settle(t.Context(), digest))
}

// TestKilledAtAnyInstant kills a service that opens, converts a base, freezes and signs, at random instants, and looks
// each time at what the next one finds: environments that are whole, no work, and a freeze that gives what one that
// nobody disturbed gives.
func TestKilledAtAnyInstant(t *testing.T) {
	f := newFixture(t, nastyBase, nastyTop)
	f.change(nastyChanges)
	first := *f
	first.upper = filepath.Join(f.dir, "first")
	must(t, write(filepath.Join(first.upper, "opt/first"), "an earlier session's"))
	keys := filepath.Join(t.TempDir(), "keys")
	start := time.Now()
	calm := openLibrary(t, Config{Dir: filepath.Join(t.TempDir(), "calm"), Keys: keysIn(t, keys)})
	want := freeze(t, calm, f, nil).Digest
	must(t, calm.settle(t.Context(), want))
	whole := time.Since(start)

	dir := filepath.Join(t.TempDir(), "library")
	l := openLibrary(t, Config{Dir: dir, Keys: keysIn(t, keys)})
	earlier := freeze(t, l, &first, func(r *Request) { r.Key = "s0" })
	must(t, l.settle(t.Context(), earlier.Digest), l.Close())
	t.Logf("killed within %v", whole)
	r := rand.New(rand.NewPCG(treetest.Seed(t), 0))
	var finished int
	rounds := testenv.Rounds(6, 25)
	for range rounds {
		if kill(t, r, whole, append([]string{dir, keys, f.upper}, f.layers...)) {
			finished++
		}
		l := openLibrary(t, Config{Dir: dir, Keys: keysIn(t, keys)})
		noLeftovers(t, l)
		soundAfterKill(t, l, earlier.Digest)
		if r.IntN(3) == 0 {
			if e := freeze(t, l, f, nil); e.Digest != want {
				t.Errorf("frozen after the kill: %s, undisturbed %s", e.Digest, want)
			}
		}
		must(t, l.Close())
		if t.Failed() {
			t.FailNow()
		}
		forget(t, l, want, r.IntN(2) == 0)
	}
	if finished == rounds {
		t.Error("each of them was killed too late")
	}
	t.Logf("%d of %d had finished", finished, rounds)
}

// kill runs a service and ends it at a random instant; it tells whether that was too late.
func kill(t *testing.T, r *rand.Rand, within time.Duration, args []string) (finished bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServiceToBeKilled$")
	cmd.Env = append(os.Environ(), envKilled+"="+strings.Join(args, "\n"))
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	buf := make([]byte, 4) // "open"
	if _, err := out.Read(buf); err != nil {
		t.Fatalf("it did not open: %v, %v", err, cmd.Wait())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(within))))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended
	defer stop()
	return cmd.Wait() == nil
}

// soundAfterKill makes sure that all that can be found is whole, and settles it, so that half signed images are tried.
func soundAfterKill(t *testing.T, l *Library, earlier string) {
	t.Helper()
	all, err := l.Records.List("alice")
	must(t, err)
	found := map[string]bool{}
	for _, e := range all {
		found[e.Digest] = true
		if _, err := l.Ready(t.Context(), e.Digest); err != nil {
			t.Errorf("listed and not ready: %v", err)
		}
		if list, err := l.Statements.List(e.Digest); err != nil || len(list) == 0 {
			t.Errorf("listed, and %d statements about it: %v", len(list), err)
		}
	}
	if !found[earlier] {
		t.Error("the earlier environment is gone")
	}
	documents, err := filepath.Glob(l.dir.Path("documents", "*.json"))
	must(t, err)
	for _, path := range documents {
		digest := blob.Prefix + strings.TrimSuffix(filepath.Base(path), ".json")
		if _, err := l.Verify(t.Context(), digest); err != nil {
			t.Errorf("known and not whole: %v", err)
		}
		if err := l.settle(t.Context(), digest); err != nil {
			t.Errorf("not settled: %v", err)
		}
		// One that died before it was stated where it comes from is not listed either.
		if v, err := l.Verify(t.Context(), digest); err != nil || len(v.Signers) != min(1, len(v.Stated)) {
			t.Errorf("settled: %d signers of %d statements, %v", len(v.Signers), len(v.Stated), err)
		}
	}
	for _, pattern := range []string{"*/.new-*", "*/*/.new-*"} {
		if left, _ := filepath.Glob(l.dir.Path(pattern)); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// forget takes away what the next service is to make anew.
func forget(t *testing.T, l *Library, digest string, bases bool) {
	t.Helper()
	hexPart := libdir.HexOrNone(digest)
	must(t, l.removeEnvironment(hexPart), os.RemoveAll(l.dir.Path("records", "alice", hexPart+".json")), os.RemoveAll(l.dir.Path("sources")))
	if bases {
		must(t, os.RemoveAll(l.dir.Path("bases")))
	}
}

// TestHalfASignatureIsTakenAway leaves what services leave that die while they sign: the next one finds whole images at
// once.
func TestHalfASignatureIsTakenAway(t *testing.T) {
	f := newFixture(t, nastyBase)
	dir, keys := filepath.Join(t.TempDir(), "l"), keysIn(t, filepath.Join(t.TempDir(), "keys"))
	l := openLibrary(t, Config{Dir: dir, Keys: keys})
	e := freeze(t, l, f, nil)
	unsigned, err := os.ReadFile(l.dir.Image(e.Digest))
	must(t, err, l.settle(t.Context(), e.Digest), l.Close())
	signed, err := os.ReadFile(l.dir.Image(e.Digest))
	must(t, err, os.Remove(l.dir.Path("facts", libdir.HexOrNone(e.Digest)+".json")))
	head := sif.PartitionOffset
	for name, half := range map[string][]byte{
		"unsigned":         unsigned,
		"some bytes":       signed[:len(unsigned)+100],
		"without its head": append(slices.Clone(unsigned[:head]), signed[head:]...),
		"half a head":      slices.Concat(signed[:5000], unsigned[5000:head], signed[head:]),
		"all of it":        signed,
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(l.dir.Image(e.Digest), half, 0o644))
			l := openLibrary(t, Config{Dir: dir, Keys: keys})
			if _, err := l.Ready(t.Context(), e.Digest); err != nil {
				t.Error(err)
			}
			must(t, l.Close())
		})
	}
}
