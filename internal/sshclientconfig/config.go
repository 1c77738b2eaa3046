package sshclientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"slipway/internal/errs"
)

// Included says whether the user's configuration includes ours.
type Included struct {
	Path string // of her configuration
	Line string // what she is to put on top of it by herself; empty: it is there
	Why  string // why it was not put there for her
}

// include returns the Include line for this user.
func (f *Files) include() include {
	i := include{
		home: slashes(f.cfg.Home), dir: slashes(f.ssh()), target: slashes(f.hosts()), word: "config.d/slipway.conf",
		windows: f.cfg.Windows,
	}
	if f.cfg.Foreign {
		i.word = i.target
	}
	return i
}

// join has the user's configuration include ours, and reports whether the file was made for it. A file that is not
// plainly hers to change is left alone, and the line told instead.
func (f *Files) join() (in Included, made bool, err error) {
	in.Path = f.config()
	text, err := os.ReadFile(in.Path)
	if errors.Is(err, fs.ErrNotExist) && !isLink(in.Path) {
		return in, true, write(in.Path, f.include().add(nil))
	}
	if err == nil && f.include().covered(text) {
		return in, false, nil
	}
	if err == nil {
		err = change(in.Path, text, f.include().add(text))
	}
	if err != nil {
		in.Line, in.Why = f.include().line(), errs.Brief(err)
	}
	return in, false, nil
}

// Included tells whether the user's configuration includes ours now.
func (f *Files) Included() Included {
	in := Included{Path: f.config()}
	text, err := os.ReadFile(in.Path)
	switch {
	case err != nil:
		in.Line, in.Why = f.include().line(), errs.Brief(err)
	case !f.include().covered(text):
		in.Line, in.Why = f.include().line(), "the line is not there, or too late"
	}
	return in
}

// part takes our lines out of the user's configuration; made says that the file came with them, and is to go with them.
func (f *Files) part(made bool) error {
	text, err := os.ReadFile(f.config())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	rest := f.include().remove(text)
	switch {
	case bytes.Equal(rest, text):
		return nil
	case made && len(rest) == 0:
		return os.Remove(f.config())
	}
	return change(f.config(), text, rest)
}

// change puts next in place of text, which was read from the user's file. Owner and mode stay.
func change(path string, text, next []byte) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errs.New(errs.Conflict, "it is a symbolic link")
	case !info.Mode().IsRegular():
		return errs.New(errs.Conflict, "it is no plain file")
	case info.Mode().Perm()&0o200 == 0:
		return errs.New(errs.Conflict, "it is read-only")
	case bytes.IndexByte(text, 0) >= 0:
		return errs.New(errs.Conflict, "it is no text that ssh can read")
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
		return errs.New(errs.Conflict, "it changes just now")
	}
	err = replace(path, next, info.Mode().Perm(), func(t *os.File) error { return keepOwner(t, info) })
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
