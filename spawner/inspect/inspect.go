// Package inspect answers what users ask about workloads: why one waits and where it stands in line, how far it has
// come, and what it has printed and left.
//
// Promises: who asks learns only of what is theirs, a question does not wait for another host but where that is said,
// and none changes anything. It must not change a record.
package inspect

import "slipway/spawner/engine"

// Inspector answers questions. Its methods are safe for concurrent use.
type Inspector struct{ engine *engine.Manager }

// New makes an Inspector of the engine that has the records.
func New(e *engine.Manager) *Inspector { return &Inspector{e} }
