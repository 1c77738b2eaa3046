package sshd

import (
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/testenv"
)

const bulk = 512 << 20

// BenchmarkBulk carries a file of 512 MiB with OpenSSH's clients. The gateway, which encrypts, is in this process too.
func BenchmarkBulk(b *testing.B) {
	testenv.Need(b, testenv.OpenSSH)
	g := newGateway(b)
	file := filepath.Join(g.home, "file")
	f, err := os.Create(file)
	if err == nil {
		err = f.Truncate(bulk)
	}
	if err != nil {
		b.Fatal(err)
	}
	_ = f.Close()
	for _, way := range []struct {
		name, program string
		args          []string
	}{
		{"cat", "ssh", []string{"alice@x", "cat file"}},
		{"get", "scp", []string{"-s", "alice@x:file", os.DevNull}},
		{"put", "scp", []string{"-s", file, "alice@x:copy"}},
		{"get-old", "scp", []string{"-O", "alice@x:file", os.DevNull}},
		{"put-old", "scp", []string{"-O", file, "alice@x:copy"}},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(bulk)
			for b.Loop() {
				if err := g.command(b.Context(), way.program, way.args...).Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
