package local

import (
	"slices"
	"testing"
)

func TestMountsBelow(t *testing.T) {
	const table = `22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
31 22 0:30 / /etc/resolv.conf rw - tmpfs tmpfs rw
32 22 0:31 / /etc/a\040b\043c rw - tmpfs tmpfs rw
33 32 0:32 / /etc/a\040b\043c/deep rw - tmpfs tmpfs rw
34 22 0:33 / /etcetera rw - tmpfs tmpfs rw

short line
`
	if got, want := mountsBelow(table, "/etc"), []string{"resolv.conf", "a b#c"}; !slices.Equal(got, want) {
		t.Errorf("mountsBelow = %q, want %q", got, want)
	}
}
