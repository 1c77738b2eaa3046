//go:build unix

package sshclientconfig

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives t the owner and the group of the file that it takes the place of.
func keepOwner(t *os.File, of fs.FileInfo) error {
	want, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := t.Stat()
	if err != nil {
		return err
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	return t.Chown(int(want.Uid), int(want.Gid))
}
