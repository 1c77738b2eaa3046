package process

import (
	"os"
	"path/filepath"
	"testing"
)

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMemoryInUse(t *testing.T) {
	const (
		agent = "1 (slipway) S 0 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0"
		app   = "7 (python) S 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0"
		child = "8 (python) S 7 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0"
		other = "9 (sh) S 2 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0"
	)
	proc := tree(t, map[string]string{
		"1/stat": agent, "7/stat": app, "8/stat": child, "9/stat": other,
		"1/smaps_rollup": "Rss: 900 kB\nPss: 900 kB\n",
		"7/smaps_rollup": "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss:    4096 kB\nPss:    3072 kB\nPss_Anon: 1 kB\n",
		"8/smaps_rollup": "Rss:    4096 kB\nPss:    1024 kB\n",
		"9/smaps_rollup": "Pss:    8 kB\n",
	})
	for name, test := range map[string]struct {
		cgroup map[string]string
		all    bool
		want   int64
	}{
		"a container's own group": {map[string]string{
			"memory.events": "oom_kill 0\n", "memory.max": "1000000\n", "memory.current": "5000\n",
			"memory.stat": "anon 1\nfile 2\ninactive_file 2000\n",
		}, true, 3000},
		"of the first version": {map[string]string{
			"memory/memory.oom_control": "oom_kill 0\n", "memory/memory.limit_in_bytes": "1000000\n",
			"memory/memory.usage_in_bytes": "7000\n", "memory/memory.stat": "total_inactive_file 1000\n",
		}, true, 6000},
		"the host's group": {map[string]string{"memory.events": "oom_kill 3\n"}, false, 4 << 20},
		"without a limit":  {map[string]string{"memory.events": "", "memory.max": "max\n", "memory.current": "1"}, false, 4 << 20},
		"none, and alone":  {nil, true, 4<<20 + 8<<10},
	} {
		if got := MemoryInUse(tree(t, test.cgroup), proc, 1, test.all); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if got := MemoryInUse(t.TempDir(), t.TempDir(), 1, true); got != 0 {
		t.Errorf("where nothing can be read: %d", got)
	}
}
