// Package signing holds a site's signing keys, signs with them, and says whose signatures count here.
//
// The keys are files of one directory, which lies outside of every database and is read anew each time: what an
// administrator adds, removes or rotates there counts at once, in every process.
//
//	20261121T144022Z-8f3c0e5b1a2d4c6e.key   a private key of this site, mode 0600; the newest signs
//	20261121T144022Z-8f3c0e5b1a2d4c6e.pem   its public key, for `apptainer verify --key`; it stays when the key is retired
//	trusted/desy.pem                        the public key of another site, of which environments are accepted
//
// What it promises: keys are ECDSA P-256 and leave the directory in no way; a key that others can read, or a directory
// that others can write to, is refused. A signature counts when its key is one of the site's own, retired ones
// included, or lies in trusted. Equal payloads give equal envelopes (RFC 6979), and one changed byte of an envelope is
// noticed, wherever it is.
//
// An envelope is a DSSE envelope with key ids as Apptainer writes them (the SHA-256 fingerprint that `ssh-keygen -l`
// shows). A provenance statement is an in-toto statement, version 1, with a SLSA provenance predicate in such an
// envelope: who froze which environment on what base, when and where. It is signed as soon as the environment has its
// digest, and takes no image to read.
//
// What it must not do: know images, sessions, or where statements are kept.
package signing
