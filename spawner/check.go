package spawner

import "context"

// CheckJob refuses what SubmitJob would refuse as it is asked for, whatever environment it is to run in, and does nothing else: before
// a session is frozen for a job that could never run.
func (m *Manager) CheckJob(ctx context.Context, c Caller, r JobRequest) error {
	r, err := m.admissible(c, r)
	if err != nil {
		return err
	}
	if err := m.checkJob(ctx, c, r); err != nil {
		return err
	}
	return m.judge(ctx, m.jobOf(c, r, ""))
}
