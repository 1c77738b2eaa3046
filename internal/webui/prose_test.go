package webui

import "testing"

func TestCommandsInProseAreCode(t *testing.T) {
	for words, want := range map[string]string{
		"":                          "",
		"plain <b>":                 "plain &lt;b&gt;",
		"run `a <b>`, then `c`":     "run <code>a &lt;b&gt;</code>, then <code>c</code>",
		"one ` alone":               "one ` alone",
		"`whole`":                   "<code>whole</code>",
		"two `` and `<i>":           "two `` and `&lt;i&gt;",
		"`x` and <script>`y</i>` &": "<code>x</code> and &lt;script&gt;<code>y&lt;/i&gt;</code> &amp;",
	} {
		if got := string(prose(words)); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
