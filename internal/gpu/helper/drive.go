//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"slipway/internal/gpu/driverrpc"
	"slipway/internal/gpu/nvml"
)

// inside tells that this is not the build for sessions and jobs, but the host's.
const inside = false

// open opens the driver.
func open(errOut io.Writer) (*nvml.Driver, error) {
	return nvml.New(nvml.Config{Logger: slog.New(slog.NewTextHandler(errOut, nil))})
}

// drive answers the service until its words end. A driver that hangs is left to the kernel: the process ends all the
// same.
func drive(ctx context.Context, args []string, _, errOut io.Writer) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("takes no arguments, not %q", args)}
	}
	out, err := ownStdout()
	if err != nil {
		return err
	}
	d, err := open(errOut)
	if err != nil {
		return errors.Join(err, driverrpc.Refuse(out, err))
	}
	if err := driverrpc.Serve(ctx, d, os.Stdin, out); err != nil {
		return err
	}
	return d.Close()
}

// ownStdout keeps stdout to itself: what a library of NVIDIA's may print goes to stderr, not between the answers.
func ownStdout() (*os.File, error) {
	fd, err := syscall.Dup(syscall.Stdout)
	if err != nil {
		return nil, fmt.Errorf("keep stdout: %w", err)
	}
	if err := syscall.Dup3(syscall.Stderr, syscall.Stdout, 0); err != nil {
		return nil, fmt.Errorf("turn stdout to stderr: %w", err)
	}
	return os.NewFile(uintptr(fd), "stdout"), nil
}
