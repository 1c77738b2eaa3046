// Package publish lays environments out in directories that somebody else publishes: a CVMFS repository, the root of an
// XRootD server.
//
//	<hex>.sif                    the SIF, never changed, by the digest of its file
//	<owner>/<name>/<tag>.sif     -> ../../<hex>.sif
//	.flat/<first two>/<hex>/     the tree, by the environment's digest, as unpacked CVMFS repositories have it
//	<owner>/<name>:<tag>         -> ../.flat/<first two>/<hex>
//
// What it promises: a name leads to a whole rendering or is not there; what is wanted is there, and what was published
// and is not wanted any more goes, sooner or later, also when the service is killed in between; what somebody else has
// put into the directory stays. What it must not do: decide what is wanted, or know whose it is.
package publish
