package units

import "testing"

func TestParseMemory(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64 // 0: refused
	}{
		{"2G", 2 << 30}, {"2g", 2 << 30}, {"2GiB", 2 << 30}, {"2GB", 2 << 30}, {" 2G ", 2 << 30}, {"2 G", 2 << 30}, {"1.5 GiB", 3 << 29}, {"1.5G", 3 << 29},
		{"512M", 512 << 20}, {"4096", 4096}, {"7B", 7}, {"1K", 1024}, {"1T", 1 << 40}, {"0.5K", 512},
		{"", 0}, {"G", 0}, {"-2G", 0}, {"+2G", 0}, {"0", 0}, {"0G", 0}, {"2X", 0}, {"2GG", 0}, {"2I", 0}, {"1e3", 0}, {"0x10", 0},
		{"NaN", 0}, {"Inf", 0}, {"1.2.3G", 0}, {"99999999T", 0}, {"999999999999999999999999", 0}, {"0.1", 0}, {"2KM", 0}, {"2G; rm", 0},
	} {
		got, err := ParseMemory(tc.in)
		if (err != nil) != (tc.want == 0) || got != tc.want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", tc.in, got, err, tc.want)
		}
	}
}

func TestFormatMemory(t *testing.T) {
	for n, want := range map[int64]string{2 << 30: "2G", 3 << 29: "1536M", 1000: "1000", 1 << 40: "1T", 1 << 50: "1024T", 0: "0"} {
		if got := FormatMemory(n); got != want {
			t.Errorf("FormatMemory(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestMemoryWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 2 << 30: "2 GiB", 3 << 29: "1.5 GiB", 512 << 20: "512 MiB", 1<<30 - 1: "1 GiB", 1 << 50: "1024 TiB", 300 << 20: "300 MiB"} {
		if got := MemoryWords(n); got != want {
			t.Errorf("MemoryWords(%d) = %q, want %q", n, got, want)
		}
	}
	for in, want := range map[string]string{"11G": "11 GiB", "1536M": "1.5 GiB", "": "", "odd": "odd"} {
		if got := MemoryText(in); got != want {
			t.Errorf("MemoryText(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"2G", "1.5GiB", "x", "9223372036854775807", "0.000001T"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseMemory(s)
		if err != nil {
			return
		}
		if n < 1 {
			t.Fatalf("ParseMemory(%q) = %d", s, n)
		}
		// Beyond 2^53 a float no longer holds each whole number.
		if again, err := ParseMemory(FormatMemory(n)); n < 1<<53 && (err != nil || again != n) {
			t.Fatalf("ParseMemory(FormatMemory(%d)) = %d, %v", n, again, err)
		}
	})
}
