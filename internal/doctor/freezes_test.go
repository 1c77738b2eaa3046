package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// TestSharesBlocks: a file system that can share blocks is told from one that cannot, and nothing is left there.
func TestSharesBlocks(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		t.Skip("mkfs.xfs is missing")
	}
	for name, test := range map[string]struct {
		make []string
		want errs.Kind
	}{
		"xfs":  {[]string{"mkfs.xfs", "-q", "-m", "reflink=1"}, errs.Internal},
		"ext4": {[]string{"mkfs.ext4", "-q"}, errs.Missing},
	} {
		t.Run(name, func(t *testing.T) {
			disk, at := filepath.Join(t.TempDir(), "disk"), t.TempDir()
			if err := os.WriteFile(disk, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(disk, 320<<20); err != nil {
				t.Fatal(err)
			}
			for _, argv := range [][]string{append(test.make, disk), {"mount", "-o", "loop", disk, at}} {
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%q: %v\n%s", argv, err, out)
				}
			}
			defer func() {
				if err := exec.Command("umount", at).Run(); err != nil {
					t.Error(err)
				}
			}()
			before, _ := os.ReadDir(at)
			err := sharesBlocks(filepath.Join(at, "not", "there", "yet"))
			if err != nil != (test.want != errs.Internal) || err != nil && !errs.Is(err, test.want) {
				t.Errorf("sharesBlocks = %v, want kind %d", err, test.want)
			}
			if after, _ := os.ReadDir(at); len(after) != len(before) {
				t.Errorf("something is left: %v", after)
			}
		})
	}
}
