// Package library opens shared libraries of the NVIDIA driver at run time, without cgo: a program that uses it starts
// on hosts without them. It is the only package that imports purego.
//
// It promises that a library or a function that is missing is an error, never a panic. A program that uses it needs a
// libc: it must not come into the service or the agent, which are static.
package library

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// ErrNotFound is what opening a library fails with that is not there. Any other error means that it is there and does
// not load.
var ErrNotFound = errors.New("not found by the dynamic loader")

// Library is an open library. It stays open until the process ends: NVIDIA's libraries keep threads and handlers of
// their own.
type Library struct {
	name   string
	handle uintptr
}

// Open opens the library of this name: in dir, or where the dynamic loader looks when dir is empty.
func Open(dir, name string) (*Library, error) {
	path := name
	if dir != "" {
		path = filepath.Join(dir, name)
	}
	// The loader keeps the reason of a failure for the thread that failed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err == nil {
		return &Library{name: name, handle: handle}, nil
	}
	// The loader also says so of what the library itself needs; then it begins with another name.
	if strings.HasPrefix(err.Error(), path+":") && strings.Contains(err.Error(), "No such file") || strings.HasSuffix(err.Error(), path+": No such file or directory") {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return nil, fmt.Errorf("%s does not load: %w", name, err)
}

// Bind makes *f, of any function type, the library's function of this name.
func (l *Library) Bind(name string, f any) error {
	if !l.TryBind(name, f) {
		return fmt.Errorf("%s has no function %s", l.name, name)
	}
	return nil
}

// TryBind is Bind for a function that older libraries lack: it reports whether this one has it.
func (l *Library) TryBind(name string, f any) bool {
	address, err := purego.Dlsym(l.handle, name)
	if err != nil || address == 0 {
		return false
	}
	purego.RegisterFunc(f, address)
	return true
}
