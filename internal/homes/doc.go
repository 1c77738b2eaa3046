// Package homes finds, makes and looks at the directories of this host that a user's sessions and jobs have: her home,
// and shared areas.
//
// It promises that a path made of a user's name never leaves the directory that the site has named, that no link on the
// way is followed, that no directory is handed out which its user could have exchanged meanwhile, and that a file
// system which does not answer holds up nobody: whatever touches one is done by Look, in a process of its own. The
// package must not know who runs workloads, nor how a directory gets into them.
package homes
