package images

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProgress(t *testing.T) {
	for line, want := range map[string]float64{
		"[=====|   ] 120/240  50%": 50, "[====|] 241/241 100%": 100, "[|] 0/7   0%": 0,
		"": -1, "Creating 4.0 filesystem": -1, "[=] 3/0 100%": -1, "[=] 9/3 300%": -1, "x [=] 1/2 50%": -1, "[=] 1/99999999999999999999 0%": -1,
	} {
		got, ok := parseProgress(line)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("parseProgress(%q) = %v, %v; want %v", line, got, ok, want)
		}
	}
}

func FuzzParseProgress(f *testing.F) {
	f.Add("[=====|   ] 120/240  50%")
	f.Fuzz(func(t *testing.T, line string) {
		if p, ok := parseProgress(line); ok && (math.IsNaN(p) || p < 0 || p > 100) {
			t.Errorf("parseProgress(%q) = %v", line, p)
		}
	})
}

func TestProgressWriterReadsAcrossWrites(t *testing.T) {
	var got []float64
	w := &progressWriter{tell: func(p float64) { got = append(got, p) }}
	for _, part := range []string{"Parallel mksquash", "fs\n\r[=|", "] 1/4  2", "5%\r[==|] 2/4 50%\r", strings.Repeat("x", 5000), "\r[===|] 4/4 100%\n"} {
		_, err := w.Write([]byte(part))
		must(t, err)
	}
	if d := cmp.Diff([]float64{25, 50, 100}, got); d != "" {
		t.Error(d)
	}
}

func TestParseMetadata(t *testing.T) {
	for in, want := range map[string][2]string{
		"Metadata-Version: 2.1\nName: numpy\nVersion: 1.26\n\nName: in the text\n": {"numpy", "1.26"},
		"name:x\r\nVERSION: 2\r\n\r\n":                                             {"x", "2"},
		"Name: x\n":                                                                {}, "\nName: x\nVersion: 1\n": {}, "": {}, "Version: 1": {},
		"Name: a\nName: b\nVersion: 1\nVersion: 2\n": {"a", "1"},
		"Name: \xff\nVersion: 1\n":                   {`"\xff"`, "1"},
	} {
		name, version, ok := parseMetadata(strings.NewReader(in))
		if !ok {
			name, version = "", ""
		}
		if got := [2]string{name, version}; got != want {
			t.Errorf("parseMetadata(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add("Name: numpy\nVersion: 1.26\n")
	f.Fuzz(func(t *testing.T, in string) {
		if name, version, ok := parseMetadata(strings.NewReader(in)); ok && (name == "" || version == "" || strings.Contains(name+version, "\n")) {
			t.Errorf("%q, %q", name, version)
		}
	})
}

const mountinfo = `22 28 0:21 / /proc rw shared:7 - proc proc rw
90 28 0:50 / /lib/a\040library/work/freeze-1/mount ro - overlay slipway ro
91 28 0:51 / /lib/a\040library/work/freeze-1/mount/in\134ner ro - tmpfs x rw
92 28 0:52 / /lib/a\040library/workshop rw - tmpfs x rw
short line
`

func TestMountsBelow(t *testing.T) {
	got, err := mountsBelow(strings.NewReader(mountinfo), "/lib/a library/work")
	must(t, err)
	want := []string{`/lib/a library/work/freeze-1/mount/in\ner`, "/lib/a library/work/freeze-1/mount"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzMountsBelow(f *testing.F) {
	f.Add(mountinfo)
	f.Fuzz(func(t *testing.T, in string) {
		points, _ := mountsBelow(strings.NewReader(in), "/lib/work")
		for _, p := range points {
			if !strings.HasPrefix(p, "/lib/work/") {
				t.Errorf("%q lies elsewhere", p)
			}
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	hexPart := strings.Repeat("a", 64)
	f.Add(`{"owner":"alice","digest":"sha256:` + hexPart + `","labels":[{"key":"s1"}]}`)
	f.Add(`{"owner":"bob"}`)
	f.Fuzz(func(t *testing.T, in string) {
		if r, err := decodeRecord([]byte(in), "alice", hexPart); err == nil && (r.Owner != "alice" || r.Digest != digestPrefix+hexPart || len(r.Labels) == 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}

func FuzzEscape(f *testing.F) {
	f.Add("alice", "Alice")
	f.Add("~", strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := escape(a), escape(b)
		if strings.EqualFold(x, y) && a != b {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		if len(x) > 255 || strings.ContainsAny(x, "/.\x00") {
			t.Errorf("escape(%q) = %q", a, x)
		}
	})
}
