package mps

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// encloseMark is the word before a program that Enclose is to become.
const encloseMark = "--"

// EncloseCommand is the command of slipway that is Enclose.
const EncloseCommand = "mps-enclose"

// Enclose becomes another program that has a directory as its /dev/shm; args are the directory, "--", and the program
// with its words. The service's command line has a command that only calls it. It returns only after an error.
func Enclose(args []string) error {
	if len(args) < 3 || args[1] != encloseMark {
		return fmt.Errorf("enclose: %d words given, want a directory, %q and a program", len(args), encloseMark)
	}
	program, err := exec.LookPath(args[2])
	if err != nil {
		return fmt.Errorf("enclose: %w", err)
	}
	runtime.LockOSThread() // the mounts of a thread become those of the program that it turns into
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enclose: make a mount namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("enclose: keep mounts apart: %w", err)
	}
	if err := syscall.Mount(args[0], "/dev/shm", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("enclose: put %s at /dev/shm: %w", args[0], err)
	}
	return fmt.Errorf("enclose: become %s: %w", program, syscall.Exec(program, args[2:], os.Environ()))
}
