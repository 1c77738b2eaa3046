package units

import "testing"

func TestDiskWords(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 kB", 88_412_160: "88 MB", 999_499_999: "999 MB", 999_500_000: "1 GB", 5_649_000_000: "5.6 GB",
		1_620_000: "1.6 MB", 9_949: "9.9 kB", 9_951: "10 kB", 50_000_000_000: "50 GB", 12_340_000_000: "12.3 GB", 123_456_000_000: "123 GB",
		2_500_000_000_000: "2.5 TB", 7_000_000_000_000_000: "7000 TB",
	} {
		if got := DiskWords(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestParseDisk(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64 // 0: refused
	}{
		{"50G", 50e9}, {"50g", 50e9}, {"50GB", 50e9}, {"50GiB", 50 << 30}, {" 1100M ", 1100e6}, {"1.5T", 15e11}, {"2kB", 2000}, {"2KiB", 2048},
		{"4096", 4096}, {"7B", 7}, {"1.5", 1},
		{"", 0}, {"G", 0}, {"-2G", 0}, {"+2G", 0}, {"0", 0}, {"0G", 0}, {"2X", 0}, {"2GG", 0}, {"2KM", 0}, {"2I", 0}, {"2iB", 0}, {"2BiB", 0}, {"2 G", 0},
		{"1e3", 0}, {"NaN", 0}, {"Inf", 0}, {"1.2.3G", 0}, {"99999999T", 0}, {"999999999999999999999999", 0}, {"0.1", 0}, {"2G; rm", 0}, {"2GiBB", 0},
	} {
		got, err := ParseDisk(tc.in)
		if (err != nil) != (tc.want == 0) || got != tc.want {
			t.Errorf("ParseDisk(%q) = %d, %v; want %d", tc.in, got, err, tc.want)
		}
	}
}

// TestWhatIsSetIsSaid: a bound is told as its administrator wrote it.
func TestWhatIsSetIsSaid(t *testing.T) {
	for in, want := range map[string]string{"50G": "50 GB", "1100M": "1.1 GB", "2T": "2 TB", "500K": "500 kB"} {
		if n, err := ParseDisk(in); err != nil || DiskWords(n) != want {
			t.Errorf("%s is told as %s, %v", in, DiskWords(n), err)
		}
	}
}

func FuzzParseDisk(f *testing.F) {
	for _, s := range []string{"2G", "1.5GiB", "x", "9223372036854775807", "0.000001T"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseDisk(s); err == nil && n < 1 {
			t.Fatalf("ParseDisk(%q) = %d", s, n)
		}
	})
}
