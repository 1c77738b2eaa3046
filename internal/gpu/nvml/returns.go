//go:build cgo

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// fault makes an error of what the library answered, and nil of success.
func fault(ret nvml.Return, attempt string, args ...any) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	what := fmt.Sprintf(attempt, args...)
	if ret == nvml.ERROR_LIB_RM_VERSION_MISMATCH {
		return errs.New(
			errs.Unavailable, "%s: the NVIDIA driver in the kernel and its libraries are of different versions", what,
		).With("reboot, or reload the kernel module, as is due after an update of the driver")
	}
	if kind := kindOf(ret); kind != nil {
		return fmt.Errorf("%s: %w (NVML: %s)", what, kind, ret.Error())
	}
	return fmt.Errorf("%s: NVML: %s", what, ret.Error())
}

// kindOf gives the words of package gpu for an answer, nil when it has none.
func kindOf(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return gpu.ErrNoDriver
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return gpu.ErrNotSupported
	case nvml.ERROR_IN_USE:
		return gpu.ErrInUse
	case nvml.ERROR_INSUFFICIENT_RESOURCES:
		return gpu.ErrNoRoom
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND:
		return gpu.ErrLost
	case nvml.ERROR_NOT_FOUND:
		return gpu.ErrNotFound
	case nvml.ERROR_RESET_REQUIRED:
		return gpu.ErrPending
	case nvml.ERROR_NO_PERMISSION:
		return gpu.ErrDenied
	}
	return nil
}

// noDriver adds to the error of a library that is not there what to do about it.
func noDriver(err error) error {
	if !errors.Is(err, gpu.ErrNoDriver) {
		return err
	}
	return errs.New(errs.Missing, "%w", err).
		With("install NVIDIA's driver with libnvidia-ml.so.1 and check that nvidia-smi works, or set gpu.driver to none or simulated")
}
