package config

import _ "embed"

//go:embed example.yaml
var example string

// Example returns a configuration with every key and what it means.
func Example() string { return example }
