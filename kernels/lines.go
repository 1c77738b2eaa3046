package kernels

import (
	"context"

	"slipway/internal/taskgroup"
)

// Lines are the websockets of a service's gateways. They outlast the requests that opened them: else net/http would
// keep for each, idle as it may be for hours, the request, what belongs to it, and a stack as deep as all that a
// request goes through on its way here.
type Lines struct {
	tasks *taskgroup.Group
}

// NewLines makes one. Run must be called.
func NewLines() *Lines {
	return &Lines{taskgroup.New(context.Background())}
}

// Run returns when ctx has ended, and then all websockets: what clients have said is taken before that, or they are
// told that it may not be. The ways to the agents should last for longer than Run.
func (l *Lines) Run(ctx context.Context) error {
	<-ctx.Done()
	l.tasks.End()
	l.tasks.Wait()
	return ctx.Err()
}

// serve runs what serves a websocket, whose context ends with the service. It reports false when that has ended
// already.
func (l *Lines) serve(do func(context.Context)) bool { return l.tasks.Go(do) }
