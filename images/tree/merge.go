package tree

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxLayers keeps the mount options of the longest stack within the one page that mount(2) takes.
const MaxLayers = 128

// Merged returns the root of the read-only overlay of layers, topmost first, by way of an empty directory to mount it
// on. The mount has no place in the file system any more when it returns: it lives as long as the file is open, and
// dies with the process.
func Merged(layers []string, point string) (*os.File, error) {
	options := make([]string, len(layers))
	for i, layer := range layers {
		// Through descriptors, as paths may be long and hold any character.
		f, err := OpenDir(layer)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		defer f.Close()
		options[i] = FDPath(int(f.Fd()))
	}
	err := unix.Mount("slipway", point, "overlay", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID,
		"redirect_dir=follow,metacopy=on,lowerdir="+strings.Join(options, ":"))
	if err != nil {
		return nil, fmt.Errorf("mount %d layers: %w", len(layers), err)
	}
	root, openErr := OpenDir(point)
	if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return nil, errors.Join(openErr, fmt.Errorf("detach %s: %w", point, err))
	}
	return root, openErr
}
