// Package service makes the parts of the service from its configuration and joins them: the records, accounts, backends,
// environments, the engine, GPUs, credentials, the server, the ssh gate. Each part is given the few functions of others
// that it needs, so that none of them knows another; what stands here converts and connects.
//
// It is the one package that names every backend. Serve runs all parts until it is told to end, or until one of them
// fails; sessions and jobs outlive it. It must not decide: who may do what, when and where stands in the parts.
package service
