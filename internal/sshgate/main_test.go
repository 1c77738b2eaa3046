package sshgate

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run beside each other than there are processors: those that do wait for what has its time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
