// Package sif renders an environment as the file that Apptainer and SingularityCE run, signs such files and tells
// whether one is what it says.
//
// The file is a head of [PartitionOffset] bytes, one squashfs partition, and the environment's manifest as a JSON
// object:
//
//	head (32768) | squashfs (a multiple of 4096) | slipway.json | signatures
//
// What it promises: without signatures every byte of the file follows from the architecture, the partition and the
// manifest, so that equal environments are equal files wherever they are put together. Nothing here copies a partition
// that is already in its place. [Open] accepts exactly the files that this package writes, with or without signatures,
// and nothing that could run as another tree than the one that was signed: a second partition, an overlay, bytes that
// belong to no object. It takes any bytes, and reads the head alone. A file whose signing was interrupted is brought
// back by [Repair].
//
// Signatures are DSSE envelopes with the digests of head, descriptors and objects, in the form that Apptainer writes
// itself. `apptainer verify --key site.pem` accepts them, without a key server and without a keyring, since Apptainer
// 1.2 and SingularityCE 3.11. Older ones know PGP signatures alone: they run these files and cannot verify them. A site
// that needs PGP signs the unsigned file with its own `apptainer sign`: Apptainer 1.4 verifies no file that has
// signatures of both kinds. [Open] lists PGP signatures, and [Image.Verify] passes them over.
//
// What it must not do: know how a squashfs is made or read, hold keys (signing and opening of envelopes are functions
// given by the caller), or know where files are kept.
package sif
