package agent

import (
	"context"
	"net"
	"syscall"

	"slipway/internal/agent/sshd"
)

// newSSH makes the end of ssh connections. Its programs are children of the agent, as the app is; but what they leave
// in the background goes on, as it does after a login anywhere else.
func newSSH(a *agent) *sshd.Server {
	return sshd.New(sshd.Config{
		Logger: a.log, Environment: a.app.surroundings,
		Start: func(program string, argv []string, attr *syscall.ProcAttr) (int, sshd.Wait, error) {
			pid, done, err := a.reaper.Begin(program, argv, attr, false)
			return pid, func(ctx context.Context) (syscall.WaitStatus, error) {
				select {
				case e := <-done:
					return e.Status, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}, err
		},
	})
}

// toSSH serves a stream of an ssh connection, once the session has what its programs are to have.
func (a *agent) toSSH(ctx context.Context, s net.Conn) {
	if !a.app.launched() {
		_ = s.Close()
		return
	}
	a.ssh.Link().Serve(ctx, s)
}
