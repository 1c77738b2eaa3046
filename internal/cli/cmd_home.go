//go:build linux

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// homeCommand is `slipway home`.
func homeCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use: "home", Short: "Look at your home", Args: nothingElse,
		Example: "  slipway home usage",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	most := 20
	usage := &cobra.Command{
		Use: "usage [DIR]", Short: "Show what is big in a session's home, or in DIR", Args: atMostOne,
		Example: "  slipway home usage -n 5\n" +
			"  slipway home usage /scratch",
		Long: "Show the biggest directories and files in the home of the session or job in which it runs, or in DIR: what they take on the disk. A directory stands there with what is\n" +
			"in it alone, without what stands in a line of its own. Links are not followed, and other file systems not entered.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return runHomeUsage(env, args[0], most)
			}
			if socketOf(env) == "" {
				return errs.New(
					errs.Invalid, "this is no session, and so the home here is not the one that sessions have",
				).With("run it in a session, or name a directory of this computer: slipway home usage DIR")
			}
			return runHomeUsage(env, env.Getenv("HOME"), most)
		},
	}
	usage.Flags().IntVarP(&most, "lines", "n", most, "how many lines")
	c.AddCommand(usage)
	return c
}

func runHomeUsage(env Env, dir string, most int) error {
	if dir == "" || most < 1 {
		return errs.Bad("DIR", dir, "a directory, and at least one line")
	}
	found, total, unread, err := bigIn(dir)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, f := range found[:min(most, len(found))] {
		rows = append(rows, []string{units.DiskWords(f.bytes), fmt.Sprint(f.files), f.path})
	}
	if err := render.Table(env.Stdout, []string{"SIZE", "FILES", "PATH"}, rows, "It is empty."); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "\n%s in %d files altogether\n", units.DiskWords(total.bytes), total.files)
	if err == nil && unread > 0 {
		_, err = fmt.Fprintf(env.Stdout, "%d directories could not be read\n", unread)
	}
	return err
}

// bulk is something that takes room.
type bulk struct {
	path         string
	bytes, files int64
}

// bigShare is from which part of the whole on something has a line of its own.
const bigShare = 50

// bigIn finds what is big below a directory, the biggest first.
func bigIn(dir string) (found []bulk, total bulk, unread int, err error) {
	sizes, order, err := sizesIn(dir, &unread)
	if err != nil {
		return nil, total, unread, err
	}
	for _, b := range sizes {
		if b.path == dir {
			total = *b
		}
	}
	// From the deepest on: what is big enough has a line, and does not count for what it lies in.
	for _, path := range slices.Backward(order) {
		b := sizes[path]
		if path != dir && b.bytes*bigShare < total.bytes {
			continue
		}
		if b.files > 0 || b.bytes > 0 {
			found = append(found, *b)
		}
		for up := path; up != dir; {
			up = filepath.Dir(up)
			sizes[up].bytes -= b.bytes
			sizes[up].files -= b.files
		}
	}
	slices.SortStableFunc(
		found, func(a, b bulk) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.path, b.path)) },
	)
	return found, total, unread, nil
}

// bigFile is from when on a file may have a line of its own.
const bigFile = 1 << 20

// sizesIn adds up what lies in each directory, and below it. Of files with several names one counts.
func sizesIn(dir string, unread *int) (sizes map[string]*bulk, order []string, err error) {
	sizes = map[string]*bulk{}
	seen := map[[2]uint64]bool{}
	var device uint64
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil && path == dir {
			return err
		}
		if err != nil {
			*unread++
			return nil
		}
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if path == dir {
			device = uint64(st.Dev)
		}
		if uint64(st.Dev) != device {
			return filepath.SkipDir
		}
		id := [2]uint64{uint64(st.Dev), st.Ino}
		if !d.IsDir() && st.Nlink > 1 && seen[id] {
			return nil
		}
		if d.IsDir() || path == dir || st.Blocks*512 >= bigFile {
			sizes[path] = &bulk{path: path}
			order = append(order, path)
		}
		seen[id] = st.Nlink > 1
		addSize(sizes, dir, path, st.Blocks*512, d.IsDir())
		return nil
	})
	return sizes, order, err
}

func addSize(sizes map[string]*bulk, dir, path string, bytes int64, isDir bool) {
	at := path
	if sizes[path] == nil {
		at = filepath.Dir(path)
	}
	for {
		b := sizes[at]
		if b == nil {
			return
		}
		b.bytes += bytes
		if !isDir {
			b.files++
		}
		if at == dir {
			return
		}
		at = filepath.Dir(at)
	}
}
