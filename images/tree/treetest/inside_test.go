package treetest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListForAnother is the program of Program.
func TestListForAnother(t *testing.T) {
	skip, wanted := os.LookupEnv(envInside)
	if !wanted {
		return
	}
	l := &lister{t: t, skip: strings.Split(skip, string(separator)), mine: true}
	fmt.Println(strings.Join(l.list("/"), "\n"))
}

func TestReadable(t *testing.T) {
	const times = " mtime 1"
	got := Readable([]string{
		`"/" mode 040755 owner 0:0` + times,
		`"/a" mode 040300 owner 1:2` + times,
		`"/a b" mode 100644 owner 1:2` + times + ` "user.a"=00 "trusted.b"=01 size 3 sha256 0a one of 2 names of "/a b"`,
		`"/a/x\"\n" mode 100644 owner 1:2` + times + ` size 3 sha256 0a`,
		`"/f" mode 100044 owner 1:2` + times + ` "user.a"=00 size 3 sha256 ?`,
		`"/l" mode 120777 owner 1:2` + times + ` -> "f"`,
	})
	if d := cmp.Diff([]string{
		`"/" mode 040755` + times,
		`"/a" mode 040300` + times,
		`"/a b" mode 100644` + times + ` "user.a"=00 size 3 sha256 0a`,
		`"/f" mode 100044` + times + ` size 3`,
		`"/l" mode 120777` + times + ` -> "f"`,
	}, got); d != "" {
		t.Error(d)
	}
}
