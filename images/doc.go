// Package images makes environments out of file trees and keeps them.
//
// An environment is a base (a squashfs made of an image once, in [Library.Prepare]) and a tail (what a session changed,
// grafted onto it). A [manifest.Document] names both by their digests, and its own digest is the environment's:
//
//	Source -> graft onto the base -> SIF -> Document -> Library
//
// What it promises: the tree that the image shows equals the source's merged tree, less the strip rules, plus the
// entries that the manifest lists as added; what squashfs cannot hold is counted there too. Equal trees give equal
// digests, unless files changed while they were read. An environment is visible whole or not at all, whatever instant
// the service dies at. A paused source is resumed on every way out. Nothing that looks like a secret is published
// without its owner's word. No owner sees or names another owner's environments through a [Library] but those that are
// shared with them. All bytes were compared with the digest before a run.
//
// What it must not do: know sessions, containers or users (a source is directories and two functions), or put into an
// image anything that depends on when, by whom or from which session it was frozen. That stands in signed statements
// and in the library's records.
//
// The packages below, each of which can be understood alone: libdir is the library's directory, manifest describes an
// environment, records says whose environments there are, statements where they come from, progress reports how far
// work is, pin keeps what is in use from removal; bases and imagefile are the files of bases and images, graftmemory
// what one freeze leaves to the next, trial tries imports in an image; tree reads directories that their owners change
// meanwhile; squashfs is the format; graft merges changes into it, and packs whole trees (bases, and what no graft can
// hold); apptainer is what makes an image run there; sif is the file that Apptainer runs; signing signs; secretscan
// finds what must not travel; inventory says what is in an environment; compare proves it against its session; export
// makes other forms of it; changeset brings a session's changes from another host; blob, oci, transfer and registry
// move environments to other places; blobstore is a place (a directory, S3), replication keeps environments in several,
// publish publishes them.
//
// It runs as root on Linux: overlay mounts, devices and trusted xattrs need it.
package images
