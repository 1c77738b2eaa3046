package config

import _ "embed"

//go:embed schema.json
var schema string

// Schema returns a JSON Schema of the configuration, by which editors complete and explain its keys. A test makes it
// of the types here and of the comments in the example.
func Schema() string { return schema }
