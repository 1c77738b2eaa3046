// Package changeset carries the changes of a session from where it runs to where it is frozen, as one stream.
//
//	upper directory --Pack--> stream --Unpack--> upper directory, as images/graft reads it
//
// What it promises: the directory that Unpack makes shows over its image what the session showed when it stood still:
// names of any bytes, owners, modes, times to the nanosecond, links, hard links, holes, sockets, xattrs, deletions and
// opaque directories; that there was a device is seen, and no more: none is made of another machine's word, and no
// freeze carries one. Pack reads the upper directories of the kernel's overlay, mounted by root or by a user, and of
// fuse-overlayfs (see [Marks]); what says that the tree lies elsewhere too is refused. Contents travel while the
// session runs, and it stands still only for the tree and for what has changed meanwhile. A stream that ends early, is
// damaged or says that something failed leaves nothing behind. Both sides may be hostile: the session to whoever packs
// it, and the packer to whoever unpacks it; nothing is read or written outside of the two directories.
//
// What it must not do: know how a stream travels, what is an environment, or decide what never travels: the caller
// gives strip rules.
//
// # The stream
//
// A line with the version, then frames: one byte that says what it is, the length as an unsigned varint of 1 MiB at
// most, and so many bytes. Numbers are unsigned varints, texts have their length before them.
//
//	t  totals     files, bytes: about so much will come. Said again now and then while it is counted
//	c  content    number, size: a file's content begins. Numbers are not used twice
//	d  data       offset, bytes: offsets rise; what no data covers is a hole
//	k  kept       the content is whole
//	x  dropped    the content changed while it was read, and is not used
//	e  entry      see entry.append. The root is first; a directory is entered, what follows lies in it. Names rise within one
//	u  up         the directory is left
//	f  fault      code, text: the packer gave up
//	z  end        CRC-32C (Castagnoli, big-endian) of all before it, without the frame itself. Nothing follows
//
// It is no tar, which would have to know a file's size and place before its content is read, and holds neither names of
// xattrs with an equals sign nor holes in a form that Go's own package writes.
package changeset
