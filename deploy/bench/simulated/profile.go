package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profileCPU begins a profile, if one is asked for, and gives what ends it.
func profileCPU(path string) (end func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, pprof.StartCPUProfile(f)
}

// profileHeap writes what memory is in use for, if asked to.
func profileHeap(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}
