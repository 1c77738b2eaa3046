package config

import (
	"regexp"
	"slices"
	"testing"
)

func TestAllMistakesAreToldInTheirOrder(t *testing.T) {
	text := `Listen: x
docker:
  sokket: x
  max_total_cpus: many
hubs:
  - {name: a, apiurl: x, unknown_sessions: {action: []}}
  - {name: b, apiurl: x}
jobs: {max_memory: much, max_time: long}
gpu: 5
lisen: x
`
	_, err := Read([]byte(text), "f")
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^f, line (\d+):`).FindAllStringSubmatch(err.Error(), -1) {
		lines = append(lines, m[1])
	}
	if want := []string{"1", "3", "4", "6", "6", "7", "8", "8", "9", "10"}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v\n%v", lines, want, err)
	}
}
