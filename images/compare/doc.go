// Package compare tells in what an environment's tree differs from the tree that a session shows.
//
// What it promises: every entry of both trees is looked at, by owner, mode, whole seconds of its modification time,
// kind, device number, link target, which names are of one file, xattrs and content, byte by byte. Nothing is a
// difference that the freeze declares: what strip rules match must be absent (and what they leave empty may have
// another time), sockets and devices may be, and what was added for Apptainer may be there. What squashfs cannot hold
// (POSIX access lists, fractions of seconds) is counted and not compared. What cannot be read, or changes meanwhile, is
// a difference: there is no way to zero but equality.
//
// It is a proof of what the rooms beside it do, so it shares no code with them that decides what is in a tree: one side
// comes from the kernel's overlay, the other from a squashfs that this process reads, or from the kernel's mount of it.
//
// What it must not do: change anything, follow a link, or trust that a tree holds still.
package compare
