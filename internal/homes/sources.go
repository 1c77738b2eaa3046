package homes

import "embed"

//go:embed *.go
var sources embed.FS

// Sources are those of this package: two programs that have the same understand each other.
func Sources() embed.FS { return sources }
