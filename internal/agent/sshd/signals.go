package sshd

import (
	"fmt"
	"syscall"
)

// signals are those that RFC 4254 section 6.10 names.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
		"ILL": syscall.SIGILL,
		"INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE, "QUIT": syscall.SIGQUIT,
		"SEGV": syscall.SIGSEGV,
		"TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	}
}

func signalName(s syscall.Signal) string {
	for name, known := range signals() {
		if known == s {
			return name
		}
	}
	return fmt.Sprintf("SIG%d@openssh.com", int(s))
}

// signal returns a signal to the program and what it has started.
func (s *session) signal(name string) bool {
	sig, known := signals()[name]
	if !known || s.process == nil {
		return false
	}
	select {
	case <-s.process.ended:
		return false
	default:
		return syscall.Kill(-s.process.pid, sig) == nil
	}
}
