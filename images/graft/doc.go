// Package graft merges an overlay's upper directory into the tree of a base squashfs and writes the tail that makes one
// ordinary squashfs of both. Without a base it packs a whole tree, as an overlay that is mounted shows it: an image's, or what a session
// shows whose upper directory tells not all. There devices and sockets travel, but for those that it is told to omit, and each file is read
// once.
//
//	upper directory -> running passes -> pause -> last pass -> resume -> tables
//	                   (store contents)          (decides the tree, stores what differs)
//
// What it promises: the new tree is what the overlay showed at the pause, less the strip rules and what the result lists as sockets and
// devices, plus what it lists as added; what squashfs cannot hold is counted. A socket is nothing without its program, and a device is
// the host's: nothing of either's name is in the tree, not even what the base had there. The devices that a base has of its image are
// carried like all else of it: no runtime mounts an image so that they open. Whoever is paused is resumed once, on every way out. The
// base's tree is shared and never changed: only the directories on the way to a change are copied. Equal bases and equal upper
// directories give equal tails, unless somebody wrote meanwhile: contents that were stored and then changed stay in the
// tail as dead bytes. The upper directory may belong to an attacker who changes it all the time.
//
// What it must not do: guess. Directories and files for which the upper directory only points into the base (redirect_dir, metacopy) are
// taken from there. An upper directory that does not tell the whole tree even so is refused by [ErrNotSelfContained].
// It knows no containers, no SIF files and no environments.
//
// # Which files need no second look
//
// A file's content is taken to be what a running pass stored when inode number, size, mtime and ctime are the same in the
// pause. That has two blind spots, and both are closed by when a file may be read. A file that changes twice within one
// tick of the clock keeps its times: so none is read while it runs before its times are older than a tick. A page that is
// dirty in a shared mapping is written again without new times, until its writing out begins: so that is begun for each
// file before it is read, in the pause too, where it makes the fingerprint of the upper directory tell the next change from
// none at all. (syncfs would wait for what all others on the host have written.) A file system in memory never writes out,
// so there everything is read in the pause.
//
// # Walking
//
// Several goroutines list directories and look at what lies in them, ahead of the one that decides; neither the tree nor the
// fingerprint depends on how many they are. In the pause, the xattrs of a file whose times are those of a running pass are taken to be
// what that pass read, by the same rule as its content.
//
// # Memory
//
// For each file of the change there are about 200 bytes of notes while the graft runs, and in the result 260 bytes of node,
// name and path (measured with 100,000 small files). What the walk is ahead takes 6 MB, what is read ahead 33 MiB and what waits for a
// compressor 48 MiB, at most.
package graft
