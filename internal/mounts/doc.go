// Package mounts is about the host's data areas as workloads see them: whether what is mounted later reaches them,
// whether it answers, and what to do for those that run when it has been mounted anew. It is the one reader of the
// kernel's tables of mounts.
//
// It promises that a file system which does not answer holds up nobody who asks here: whatever touches one is done in a
// process of its own, of which at most one is there for each, also when it can neither be ended nor waited for. The
// package must not know who runs workloads, nor what is in the data areas.
package mounts
