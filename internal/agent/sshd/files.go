package sshd

import (
	"context"
	"syscall"

	"github.com/pkg/sftp"
)

// files serves the channel as the file server. It works in the agent itself: no image needs a program for it.
func (s *session) files() {
	defer close(s.finished)
	server, err := sftp.NewServer(ending{felt{s.channel, s.channel, s.moved}, s}, sftp.WithServerWorkingDirectory(s.directory()), sftp.WithAllocator())
	if err == nil {
		err = server.Serve()
	}
	code := syscall.WaitStatus(0)
	if err != nil {
		code = 1 << 8
	}
	kind, payload := exit(code)
	_, _ = s.channel.Send(context.Background(), kind, false, payload)
	_ = s.channel.CloseWrite()
}

// ending is a channel whose closing wakes its reader.
type ending struct {
	felt
	s *session
}

// Close ends the channel.
func (e ending) Close() error {
	e.s.channel.Cut()
	return nil
}
