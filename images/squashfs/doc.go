// Package squashfs reads and writes the squashfs 4.0 format, and appends to an image that exists.
//
// [Parse] reads the tables of an image into a tree of [Node] that is small enough to keep, [Image.Open] reads contents,
// and a [Writer] adds contents and a new set of tables behind the data of a base, so that the base's bytes stay where
// they are:
//
//	new image = new superblock + base[96:cut] + tail        (cut is where the base's inode table began)
//
// What it promises: any bytes may be given to Parse and to a Reader. They get an error, never a panic, a loop or memory
// beyond a small multiple of the image's size. The tree holds owners, modes, whole seconds, hard links, devices, holes
// and xattrs exactly. A Writer's output depends on what was put and in which order, never on the number of workers, the
// machine or the time, and both the kernel and squashfuse mount it.
//
// What it must not do: know overlays, SIF files or directories of a host. Whoever calls it decides what goes into a
// tree. It compresses with gzip and zstd, and refuses images of other compressors by name.
package squashfs
