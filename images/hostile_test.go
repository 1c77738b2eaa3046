package images

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

func TestDeepTrees(t *testing.T) {
	for name, tc := range map[string]struct {
		depth int
		want  string
	}{"deep": {1500, ""}, "too deep": {2500, "can be packed"}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			must(t, nest(f.upper, tc.depth))
			l := newLibrary(t)
			e, err := l.Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Source: f.source()})
			if tc.want == "" && (err != nil || e.Manifest.Files < int64(tc.depth)) {
				t.Errorf("%d files, %v", e.Manifest.Files, err)
			}
			if tc.want != "" && (!errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("err = %v", err)
			}
			noLeftovers(t, l)
		})
	}
}

// nest makes directories below one another, deeper than any path can name.
func nest(root string, depth int) error {
	fd, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err != nil {
			return err
		}
		err = unix.Mkdirat(fd, "d", 0o755)
		next, openErr := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		err = errors.Join(err, openErr, unix.Close(fd))
		fd = next
	}
	return errors.Join(err, unix.Close(fd))
}
