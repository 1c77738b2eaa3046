package sshgate

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/cpu"
)

// serverVersion is what the gateway calls itself.
const serverVersion = "SSH-2.0-Slipway"

// mostTries is how many keys a connection may try: agents offer all that they hold, one after the other.
const mostTries = 20

// serverConfig is what all connections have in common. Nothing in it rests on SHA-1. There are no finite-field groups:
// each handshake with one costs the service some 40 ms, and a stranger nothing.
func serverConfig(keys []ssh.Signer) ssh.ServerConfig {
	c := ssh.ServerConfig{
		MaxAuthTries: mostTries, ServerVersion: serverVersion,
		PublicKeyAuthAlgorithms: ssh.SupportedAlgorithms().PublicKeyAuths,
		Config: ssh.Config{
			KeyExchanges: []string{
				ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256,
				ssh.KeyExchangeECDHP384, ssh.KeyExchangeECDHP521,
			},
			Ciphers: ciphers(hasAES()),
			MACs:    []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512},
		},
	}
	for _, k := range keys {
		c.AddHostKey(k)
	}
	return c
}

// ciphers returns those that are offered. Clients choose the first of their own list that is among them, and OpenSSH's
// begins with ChaCha20: where the processor has AES, that is not half as fast here as AES-GCM (see BenchmarkCiphers),
// and is not offered.
func ciphers(aes bool) []string {
	out := []string{
		ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherAES128CTR, ssh.CipherAES192CTR, ssh.CipherAES256CTR,
	}
	if !aes {
		out = append([]string{ssh.CipherChaCha20Poly1305}, out...)
	}
	return out
}

// authenticated returns those of some ciphers that need no checksum beside them, where the processor has AES. AES-CTR
// with its SHA-256 is little more than half as fast (see BenchmarkCiphers), and is offered nevertheless: older PuTTYs
// and Paramikos, and who is told so, have nothing else.
func authenticated(ciphers []string) []string {
	if !hasAES() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ciphers), func(name string) bool { return !strings.Contains(name, "-gcm@") })
}

// meet reports whether two lists have something in common.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

func hasAES() bool {
	return cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL
}
