package tree

// The beginnings of the names of attributes by which overlays mark entries of an upper directory.
const (
	OverlayPrefix = "trusted.overlay." // the kernel's overlay, mounted by root
	// The kernel's, mounted by a user with userxattr; fuse-overlayfs also writes it.
	UserOverlayPrefix = "user.overlay."
	FuseOverlayPrefix = "user.fuseoverlayfs."
)

// HarmlessOverlayMark reports whether an overlay's mark, named by what follows the prefix, says nothing about what the
// tree holds: the overlay keeps it for itself, and whoever reads an upper directory passes it over. Every other mark is
// understood or refused.
func HarmlessOverlayMark(mark string) bool {
	switch mark {
	case "origin", "impure", "uuid", "nlink", "protattr":
		return true
	}
	return false
}
