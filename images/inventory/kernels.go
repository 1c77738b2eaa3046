package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
)

// parseKernel reads a kernel.json. Its env is left alone: people put secrets there.
func parseKernel(b []byte) (Kernel, error) {
	var k struct {
		Argv     []string `json:"argv"`
		Display  string   `json:"display_name"`
		Language string   `json:"language"`
	}
	if err := json.Unmarshal(b, &k); err != nil {
		return Kernel{}, fmt.Errorf("read JSON: %w", err)
	}
	if len(k.Argv) == 0 {
		return Kernel{}, errors.New("read JSON: no argv")
	}
	return Kernel{Display: word(k.Display), Language: word(k.Language), Program: word(k.Argv[0])}, nil
}
