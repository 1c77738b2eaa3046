package nvml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMinors(t *testing.T) {
	m, err := parseMinors(strings.NewReader("config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n\ngpu1/gi1/access 147\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gpu, gi, ci int
		want        []int
	}{
		{0, 1, 0, []int{12, 13}},
		{0, 1, -1, []int{12}},
		{1, 1, -1, []int{147}},
		{1, 1, 0, nil}, // half of what is needed is of no use
		{2, 0, 0, nil},
	} {
		if diff := cmp.Diff(c.want, m.of(c.gpu, c.gi, c.ci)); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

func TestParseMinorsRefuses(t *testing.T) {
	for _, text := range []string{"gpu0/gi1/access\n", "gpu0/gi1/access x\n", "gpu0/gi1/access -1\n", "a b c\n"} {
		if m, err := parseMinors(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %v", text, m)
		}
	}
}

func FuzzParseMinors(f *testing.F) {
	f.Add("config 1\ngpu0/gi1/ci0/access 13\n")
	f.Add("x\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMinors(strings.NewReader(text))
		if err != nil {
			return
		}
		for name, minor := range m {
			if minor < 0 || !strings.Contains(text, name) {
				t.Errorf("%q has %q with %d", text, name, minor)
			}
		}
	})
}

// The names that the vendor's own tool writes, by the real memory of the instances.
func TestComposeName(t *testing.T) {
	for _, c := range []struct {
		compute       int
		memory, total int64 // MiB
		attribute     string
		want          string
	}{
		{1, 4864, 40960, "", "1g.5gb"},
		{1, 4864, 40960, "+me", "1g.5gb+me"},
		{2, 9856, 40960, "", "2g.10gb"},
		{3, 19968, 40960, "", "3g.20gb"},
		{1, 9728, 81920, "", "1g.10gb"},
		{7, 81152, 81920, "", "7g.80gb"},
		{1, 11008, 95830, "", "1g.12gb"}, // H100 NVL
		{2, 22144, 95830, "", "2g.24gb"},
		{3, 47488, 95830, "", "3g.47gb"},
		{1, 16384, 143771, "", "1g.18gb"}, // H200
		{1, 33280, 143771, "", "1g.35gb"},
		{3, 71424, 143771, "", "3g.71gb"},
		{7, 142848, 143771, "", "7g.141gb"},
		{4, 24125, 24576, "", "4g.24gb"},
		{1, 5952, 24576, "", "1g.6gb"},
		{1, 5, 0, "", "1g.0gb"},
	} {
		if got := composeName(c.compute, c.memory*mib, c.total*mib, c.attribute); got != c.want {
			t.Errorf("%d slices with %d of %d MiB: %s, want %s", c.compute, c.memory, c.total, got, c.want)
		}
	}
	if got := trimName("MIG 1g.18gb+me"); got != "1g.18gb+me" {
		t.Error(got)
	}
}
