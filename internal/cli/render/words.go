package render

import "slipway/internal/units"

// Bytes returns a number of bytes as people say it.
func Bytes(n int64) string { return units.DiskWords(n) }
