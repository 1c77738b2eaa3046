package loopback

import "testing"

func TestIs(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "10.0.0.1": false, "localhost.example.org": false, "127.0.0.1.example.org": false,
	} {
		if Is(host) != want {
			t.Errorf("%q: %v, want %v", host, !want, want)
		}
	}
}
