// Package tree reads directory trees that belong to somebody else, who may change them meanwhile, and says what of them
// never travels.
//
// What it promises: a directory is entered through a descriptor of the one above it, never through a path; no link is
// followed and no other file system is entered. Xattrs are read whole or not at all. [Strip] matches a path on the way
// down, and never needs to see what lies below a match.
//
// What it must not do: read overlay layers by itself, beyond the one mark of a deletion ([Merged] lets the kernel do
// it), know images, or what the tree is read for.
package tree
