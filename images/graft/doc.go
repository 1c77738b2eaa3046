// Package graft merges an overlay's upper directory into the tree of a base squashfs and writes the tail that makes one
// ordinary squashfs of both. Without a base it packs a whole tree, as an overlay that is mounted shows it: an image's,
// or what a session shows whose upper directory tells not all. There devices and sockets travel, but for those that it
// is told to omit, and each file is read once.
//
//	upper directory -> running passes -> pause -> last pass -> resume -> tables
//	                   (store contents)          (decides the tree, stores what differs)
//
// What it promises: the new tree is what the overlay showed at the pause, less the strip rules and what the result
// lists as sockets and devices, plus what it lists as added; what squashfs cannot hold is counted. A socket is nothing
// without its program, and a device is the host's: nothing of either's name is in the tree, not even what the base had
// there. The devices that a base has of its image are carried like all else of it: no runtime mounts an image so that
// they open. Whoever is paused is resumed once, on every way out. The base's tree is shared and never changed: only the
// directories on the way to a change are copied. Equal bases and equal upper directories give equal tails: where
// contents lie in one follows from the tree alone, and not from when they were stored, by this graft or by an earlier
// one whose [Memory] it was given. The upper directory may belong to an attacker who changes it all the time.
//
// What it must not do: guess. Directories and files for which the upper directory only points into the base
// (redirect_dir, metacopy) are taken from there. An upper directory that does not tell the whole tree even so is
// refused by [ErrNotSelfContained]. It knows no containers, no SIF files and no environments.
//
// # Which files need no second look
//
// A file's content is taken to be what a running pass stored when inode number, size, mtime and ctime are the same in
// the pause. That has two blind spots, and both are closed by when a file may be read. A file that changes twice within
// one tick of the clock keeps its times: so none is read while it runs before its times are older than a tick. A page
// that is dirty in a shared mapping is written again without new times, until its writing out begins: so that is begun
// for each file before it is read, in the pause too, where it makes the fingerprint of the upper directory tell the
// next change from none at all. (syncfs would wait for what all others on the host have written.) A file system in
// memory never writes out, so there everything is read in the pause.
//
// # Walking
//
// Several goroutines list directories and look at what lies in them, ahead of the one that goes through them; neither
// the tree nor the fingerprint depends on how many they are. In the pause, a directory whose times are those of the
// running pass is taken to have the names that it had, and of a file whose times are those only the numbers are looked
// at, by the same rule as its content. The tree is decided when the source runs on.
//
// # Layout
//
// Units follow each other in the order of the walk: the whole blocks of a file, and fragments, which hold the rests of
// files that are next to each other. A fragment ends by the hash of a path, so that a change moves no border but those
// near it. Units are stored in packs as they are found, and the tail is made of them: a later graft takes what it knows
// from the packs of earlier ones, and compares it with the hash that was noted then.
//
// # Memory
//
// For each file of the change there are about 700 bytes of entry and note while the graft runs, and in the result 260
// bytes of node, name and path (measured with 100,000 small files). What the walk is ahead takes 6 MB, what is read
// ahead 33 MiB and what waits for a compressor 48 MiB, at most.
package graft
