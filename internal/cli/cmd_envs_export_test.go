package cli

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTelling: what takes long says so every two seconds, and nothing when it is over.
func TestTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		start, out := time.Now(), &tally{to: io.Discard}
		err := telling(&said, func() string { return out.words(time.Since(start)) }, func() error {
			time.Sleep(5 * time.Second)
			_, _ = out.Write(make([]byte, 1500))
			time.Sleep(2 * time.Second)
			return io.EOF
		})
		if want := "the service makes the file, 2 s\nthe service makes the file, 4 s\n1.5 kB received\n"; err != io.EOF || said.String() != want {
			t.Errorf("%v, and it says %q", err, said.String())
		}
	})
}
