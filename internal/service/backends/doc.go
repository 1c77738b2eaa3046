// Package backends makes the backends of workloads from the configuration, with what workloads see of this host: CVMFS
// and the Grid's authorities.
//
// It is for the service and for what looks at a host before the service runs there, so that both have the same. It
// names every backend with its own configuration, and must not know the engine.
package backends
