// Package squash packs a whole merged tree into a squashfs with mksquashfs.
//
// It makes the bases that environments are grafted onto, once per image, and is the way out for changes that no graft can hold
// (an upper directory that is not self-contained). Its price is a copy of the changes and the compression of the whole tree.
//
//	layers (+ snapshot of the changes) -> read-only overlay, strip rules hidden, what Apptainer needs added -> mksquashfs
//
// What it promises: the packed tree equals the merged tree, less what the strip rules match and [Skipped], plus [Result.Added]; equal trees
// give equal bytes with one mksquashfs; a source that was paused is resumed on every way out; no mount outlives the call.
//
// What it must not do: follow a link of the tree, or write anywhere but into Work and Out.
//
// It runs as root on Linux: overlay mounts, devices and trusted xattrs need it.
package squash
