// Package stack makes kernels of software stacks: what Jupyter needs to offer them, and the two small programs that set
// a stack up and become its kernel, or say in the notebook why they cannot.
//
// It must not look at the stacks themselves: they may lie where nothing answers.
package stack

import (
	_ "embed" // the programs
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
)

//go:embed stack.sh
var shell []byte

//go:embed stack.py
var python []byte

const (
	shellFile  = "stack.sh"
	pythonFile = "stack.py"
)

// spec is a kernel.json.
type spec struct {
	Argv     []string          `json:"argv"`
	Title    string            `json:"display_name"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env,omitempty"`
	Metadata map[string]bool   `json:"metadata"`
}

// Write puts the kernels of stacks into dir, which is to be named in JUPYTER_PATH, in place of those that are there.
func Write(dir string, stacks []control.Stack) error {
	kernels := filepath.Join(dir, "kernels")
	if err := os.RemoveAll(kernels); err != nil {
		return fmt.Errorf("remove old kernels: %w", err)
	}
	if err := os.MkdirAll(kernels, 0o755); err != nil {
		return fmt.Errorf("make the directory of kernels: %w", err)
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, shellFile), shell, 0o644),
		os.WriteFile(filepath.Join(dir, pythonFile), python, 0o644),
	)
	for _, s := range stacks {
		err = errors.Join(err, write(dir, filepath.Join(kernels, filepath.Base(s.Name)), s))
	}
	if err != nil {
		return fmt.Errorf("write the kernels of software stacks: %w", err)
	}
	return nil
}

// Argv returns what starts a stack's kernel, once Write has been there. Jupyter puts its own interpreter in the place
// of the first word.
func Argv(dir string, s control.Stack) []string {
	return []string{"python3", filepath.Join(dir, pythonFile), "start", s.Title, s.Setup, s.Python, "{connection_file}"}
}

func write(dir, kernel string, s control.Stack) error {
	text, err := json.MarshalIndent(spec{
		Argv:  Argv(dir, s),
		Title: s.Title, Language: s.Language, Env: s.Env, Metadata: map[string]bool{"debugger": true},
	}, "", "  ")
	if err == nil {
		err = os.Mkdir(kernel, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(kernel, "kernel.json"), append(text, '\n'), 0o644)
	}
	if err != nil || len(s.Logo) == 0 {
		return err
	}
	names := map[string]string{".png": "logo-64x64.png", ".svg": "logo-svg.svg"}
	if name := names[s.LogoExt]; name != "" {
		return os.WriteFile(filepath.Join(kernel, name), s.Logo, 0o644)
	}
	return nil
}
