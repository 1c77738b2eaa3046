// Package sockets opens the ports at which Hubs, users and ssh reach the service, with TLS where a certificate is
// configured, which is read again when it was renewed.
//
// The ports are held while the service restarts, so that nobody else on the host takes one, and tokens with it;
// connections wait meanwhile. systemd holds them (its file descriptor store: FileDescriptorStoreMax in the unit), or the
// parent of `slipway serve --hold`. Both hand them over as systemd hands sockets to services, by socket activation: from
// file descriptor 3 on, counted by LISTEN_FDS (sd_listen_fds(3), sd_notify(3)).
//
// Nothing that is open here reaches a child by chance. The package serves nothing, and knows no HTTP.
package sockets
