//go:build !cgo

package main

import (
	"context"
	"errors"
	"io"

	"slipway/internal/errs"
	"slipway/internal/gpu/driverrpc"
)

// inside tells that this is the build for sessions and jobs.
const inside = true

// lacks says which build has what this one has not.
func lacks() error {
	return errs.New(
		errs.Missing, "this is slipway-gpu-inside, the build for sessions and jobs, which lacks this command",
	).With("use the host's slipway-gpu, built with CGO_ENABLED=1: the service finds it beside itself or on PATH")
}

// drive tells the service why it gets no answers.
func drive(_ context.Context, _ []string, out, _ io.Writer) error {
	return errors.Join(lacks(), driverrpc.Refuse(out, lacks()))
}

func inventory(context.Context, []string, io.Writer, io.Writer) error { return lacks() }

func watch(context.Context, []string, io.Writer, io.Writer) error { return lacks() }
