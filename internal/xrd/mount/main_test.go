package mount

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: nearly all that they do is wait for clients to give
// servers up.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
