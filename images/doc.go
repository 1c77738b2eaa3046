// Package images makes environments out of file trees and keeps them.
//
// A freeze reads a [Source] (an overlay's upper directory over its layers), takes a snapshot of what changes, strips what
// must not travel, packs the merged tree into one squashfs inside one SIF and names it by the sha256 of that file:
//
//	Source -> snapshot -> assemble -> pack -> SIF -> Library
//
// What it promises: the packed tree equals the source's merged tree, less the strip rules, plus the entries that the
// manifest lists as added; what squashfs cannot hold is counted there too. Equal trees give equal digests. An
// environment is visible whole or not at all, whatever instant the service dies at. A paused source is resumed on every
// way out. No owner sees or names another owner's environments through a [Library].
//
// What it must not do: know sessions, containers or users (a source is directories and two functions), or put into an
// image anything that depends on when, by whom or from which session it was frozen. That stands in the library's records.
//
// The one stage that is specific to mksquashfs is [packer]: it writes a squashfs at [partitionOffset] of a file. Whatever
// else produces one there takes its place.
//
// It runs as root on Linux: overlay mounts, devices and trusted xattrs need it.
package images
