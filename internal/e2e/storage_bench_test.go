package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/internal/xrd/xrdtest"
)

// BenchmarkStorage measures what CVMFS and a mounted storage element add to the start of a session, and how fast a
// session reads 500 MB through a warm XCache beside xrdcp on the host. Both sides take turns. `deploy/bench/storage`
// runs it.
func BenchmarkStorage(b *testing.B) {
	testenv.Need(b, testenv.XRootDFS)
	origin := xrdtest.Origin(b)
	cache := xrdtest.Cache(b, origin)
	origin.Put("a", "content")
	const size = 500 << 20
	if err := os.Truncate(filepath.Join(origin.Data, "a"), size); err != nil {
		b.Fatal(err)
	}
	unmountAfter(b)
	plain := newSite(b)
	full := newSite(b, fmt.Sprintf("data:\n  cvmfs: {path: %q}\n  storage: [{name: eos, origin: %q, path: /data, cache: %q, mount: true}]\n", sharedDir(b), origin.URL, cache.URL))
	var without, with, there, host, session []float64
	warm := func() { host = append(host, timed(b, func() error { return xrdcp(cache.URL + "//data/a") })) }
	for range 2 { // until the cache has all of it
		warm()
	}
	host = nil
	for n := 0; b.Loop(); n++ {
		name := fmt.Sprint("n", n)
		without = append(without, plain.startTime("alice", name))
		took := full.startTime("alice", name)
		with = append(with, took)
		began := time.Now()
		full.eventually("the storage is there", func() bool {
			return full.in("alice", "cat /storage/eos.cached/a 2>/dev/null | head -c 7; true") == "content"
		})
		there = append(there, took+time.Since(began).Seconds())
		warm()
		session = append(session, timed(b, func() error { full.in("alice", "dd if=/storage/eos.cached/a of=/dev/null bs=1M"); return nil }))
		plain.removeAll("alice")
		full.removeAll("alice")
	}
	fmt.Printf("\n| seconds | median | all |\n|---|---|---|\n")
	for _, row := range []struct {
		what string
		all  []float64
	}{
		{"start without", without}, {"start with CVMFS and a mount", with}, {"until /storage is there", there}, {"500 MB, host, xrdcp", host}, {"500 MB, session, mount", session},
	} {
		fmt.Printf("| %s | %.2f | %.2f |\n", row.what, median(row.all), row.all)
	}
	fmt.Printf("\n**The start takes %.0f ms more; the session reads %.2f times as fast as the host.**\n\n", 1000*(median(with)-median(without)), median(host)/median(session))
}

// startTime starts a session and gives how long it took until it ran.
func (s *site) startTime(user, launch string) float64 {
	return timed(s.t, func() error {
		id := s.ask(user, launch).object(s.t)["id"].(string)
		for began := time.Now(); s.phase("root", "sessions", id) != "running"; <-time.After(5 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				return fmt.Errorf("%s does not run: %s", id, s.call("root", http.MethodGet, "/api/v1/sessions/"+id, nil).body)
			}
		}
		return nil
	})
}

func (s *site) removeAll(user string) {
	for _, w := range s.list(user, "sessions") {
		s.call(user, http.MethodDelete, "/api/v1/sessions/"+w["id"].(string), nil)
	}
	s.eventually("none is there", func() bool { return len(s.list(user, "sessions")) == 0 })
}

// sharedDir is one with an unpacked tree, from which mounts propagate.
func sharedDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "tree.example.org"), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tree.example.org/hello.txt"), []byte("hello from a tree\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"mount", "--bind", dir, dir}, {"mount", "--make-shared", dir}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", argv, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
	return dir
}

func xrdcp(from string) error {
	return exec.Command("xrdcp", "--nopbar", "--force", from, "/dev/null").Run()
}

func timed(t testing.TB, do func() error) float64 {
	t.Helper()
	began := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began).Seconds()
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
