// Package transfer moves environments to and from OCI registries.
//
// A push sends what the registry lacks, and nothing else: of the second environment over one base that is the tail and
// a few hundred bytes of documents. Blobs go first, then the documents that name them, then the tag, so that nobody
// finds half of an environment. A pull goes the other way into files of a directory that are named by their digests.
//
// What it promises: content whose digest is wrong is refused, and what had come of it is removed; more bytes than a
// descriptor tells are never written; a broken connection, an answer of 429 or 5xx, a silent peer and an expired token
// are met with patience, and what had arrived by then is not sent again where the registry can tell how far it came. A
// pull that was killed goes on where it was. What fails for good says what, where and what to do.
//
// What it must not do: know what an environment is made of beyond its document, or show a credential to anything but
// the registry (and its token service) that it is for.
//
// oras-go follows the challenges of registries, and knows where statements about an image stand in registries that lack
// the referrers API. It sends a blob in one piece and starts anew when that breaks; hence the uploads and downloads
// here are our own.
package transfer
