// Package export shows one environment in the forms that others take: the upper directory of an overlay over its base,
// an OCI image, an unpacked directory as unpacked CVMFS repositories have it, and the squashfs partition put together
// again from base and tail.
//
// What it promises: every form has the tree of the environment, or is refused with the path that it cannot hold before
// anything is written; but an unpacked directory, in which no runtime stands between a file and who opens it, has no
// devices, no set-id programs and no capabilities: its readers lose nothing, as runtimes and CVMFS clients mount
// without them. An upper directory keeps set-id programs, as its session's container grants no new privileges, but is
// refused with a device: a freeze carries none, so it would be a stranger's word on this host's hardware. Equal
// environments give equal bytes. Contents pass through in pieces: memory does not grow with the environment. What is
// written goes below one directory descriptor, and no link is followed on the way.
//
// What it must not do: read a user's live directory, know sessions, engines or registries, or keep what it made.
package export
