package spawner

import "testing"

const gib = int64(1) << 30

func TestLedger(t *testing.T) {
	l := newLedger(map[string]Capacity{"docker": {CPUs: 2, Memory: 4 * gib}, "local": {Count: 1}})
	small := Resources{CPUs: 1, Memory: gib}
	l.enter("docker", "a", small)
	l.enter("docker", "a", small) // twice is once
	if got := l.lacks("docker", small); got != "" {
		t.Errorf("the second does not fit: %s", got)
	}
	l.enter("docker", "b", small)
	if got, want := l.lacks("docker", small), "1 CPU asked, 0 of 2 free"; got != want {
		t.Errorf("lacks = %q, want %q", got, want)
	}
	l.strike("docker", "a")
	l.strike("docker", "a")
	if got := l.lacks("docker", small); got != "" {
		t.Errorf("given back, yet %s", got)
	}
	if got, want := l.neverFits("docker", Resources{Memory: 5 * gib}), "5 GiB of memory asked, 4 GiB of 4 GiB free"; got != want {
		t.Errorf("neverFits = %q, want %q", got, want)
	}
	l.enter("local", "j", Resources{})
	if got, want := l.lacks("local", Resources{}), "1 of 1 places taken"; got != want {
		t.Errorf("lacks = %q, want %q", got, want)
	}
	if got := l.lacks("unlimited", Resources{CPUs: 1e6}); got != "" {
		t.Errorf("no capacity means no limit, yet %s", got)
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 512 << 20: "512 MiB", 2 * gib: "2 GiB", 5000 * gib: "4.9 TiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
}
