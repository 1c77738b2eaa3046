package engine

import (
	"context"
	"fmt"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/launch"
)

// HTCondor 23.9 brings nothing back of a job whose worker it has lost touch with for a minute and found again: the
// shadow refuses the key for the transfer that it has given to the starter ("transkey is invalid!" in its log, "Failed
// to receive GoAhead message" in the starter's), five times, and has the job evicted then. The link to the agent is as
// good as ever.

// needsAgentCheckpoint reports whether what a session has changed may not come back by way of its batch system, and its
// agent can be asked for it.
func (m *Manager) needsAgentCheckpoint(e Entry) bool {
	return e.Seen.Shaken && e.Kind != spawner.Job && !e.Up.IsZero() && e.Asked.IsZero() && e.Status.State != ""
}

// checkpointViaAgent keeps what a session has changed before it is ended. Where that does not work, it is ended as any
// other.
func (m *Manager) checkpointViaAgent(ctx context.Context, e Entry) bool {
	err := m.keepViaAgent(ctx, e)
	if err != nil {
		m.log.Warn(
			"the changes of a session cannot be had from its agent; its batch system may bring them", "id", e.ID, "err",
			err,
		)
	}
	return err == nil
}

func (m *Manager) keepViaAgent(ctx context.Context, e Entry) error {
	changes, err := m.cfg.Agents.Agent(e.ID).Changes(ctx, control.ChangesRequest{})
	if err != nil {
		return fmt.Errorf("ask the agent for the changes: %w", err)
	}
	defer changes.Close()
	m.relay(e.ID, "Keeping your changes", 0)
	digest, err := m.cfg.Keep(ctx, launch.WithEnvironment(e.Workload), changes)
	if err != nil {
		return fmt.Errorf("keep the changes: %w", err)
	}
	return m.noteSaved(ctx, e, digest, "")
}
